"""Passes that recognise operators in the formulas that they stand for."""
