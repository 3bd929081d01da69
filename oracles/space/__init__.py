"""The space of formulas: losses as points in a product of choices, for saying which one is computed."""
