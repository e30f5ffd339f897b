"""Legalisation: every operator runs at an element type that a runtime computes, by measured tables."""
