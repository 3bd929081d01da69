"""The releases of a library side by side."""
