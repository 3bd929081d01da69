"""Measurements that anyone can run again; `make bench` runs them."""
