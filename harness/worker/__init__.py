"""The self-contained part that runs inside a target's interpreter.

It is handed over by path to an interpreter that has torch and the target and nothing of ours installed:
Python 3.9, the standard library and torch only, relative imports only. `protocol` is also the parent's.
"""
