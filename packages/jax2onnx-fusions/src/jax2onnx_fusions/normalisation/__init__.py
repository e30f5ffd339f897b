"""Passes that make operators of normalisations, and fold one into the layer before it."""
