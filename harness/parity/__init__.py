"""Parity: executions of a target on the same cases, compared with each other and with the oracle."""
