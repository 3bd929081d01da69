"""The seeded faults: which of them the cases of a run catch."""
