"""Legalisation: running every operator at an element type that a runtime computes, by measured tables."""
