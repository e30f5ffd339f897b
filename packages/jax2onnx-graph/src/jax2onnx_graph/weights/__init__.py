"""Weights that are not in memory: absent ones of a model, and the files that have them."""
