"""The kinds of targets that have a script, one a file."""
