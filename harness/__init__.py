"""Running: targets in their own process, judging, the command line."""
