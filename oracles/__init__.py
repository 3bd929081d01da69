"""What is right: one formula a file, evaluated exactly, with the error that rounding can cause."""
