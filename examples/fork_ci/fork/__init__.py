"""A fork of a trainer, as small as it can be."""
