"""Divergences that are expected: read from the configuration, applied while a run judges, settled at its end."""
