"""What is written down: the records of a run, their store, and the formats they are shown in."""
