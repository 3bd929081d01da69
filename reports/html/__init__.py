"""A run, a comparison or a matrix as one HTML file that asks for nothing outside it."""
