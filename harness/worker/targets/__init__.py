"""The adapters, one implementation a file; each imports its library only when it is opened."""
