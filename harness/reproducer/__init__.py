"""Reproducers: a failing case as one Python file that needs torch and the target, and nothing of lossgate."""
