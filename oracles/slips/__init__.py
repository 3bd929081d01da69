"""Formulas with one step written wrong: what an answer is compared with to say why it is wrong."""
