"""Releases of libraries as targets: fetched once into lossgate's cache, laid over an interpreter, never put into it."""
