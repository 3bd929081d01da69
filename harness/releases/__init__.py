"""Releases of libraries as targets: fetched once into lossgate's cache, and laid over an interpreter."""
