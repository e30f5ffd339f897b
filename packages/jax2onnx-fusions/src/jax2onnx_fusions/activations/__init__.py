"""Passes that make operators of activations."""
