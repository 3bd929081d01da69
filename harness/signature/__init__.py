"""What is wrong with a failing cell, in one line of plain words, from many of its cases."""
