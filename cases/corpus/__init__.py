"""The corpus: named cases, each for a fault that was public."""
