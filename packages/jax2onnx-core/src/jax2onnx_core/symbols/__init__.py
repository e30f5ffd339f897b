"""Symbolic dimensions: expressions, their origins, their table, and fixing them to numbers."""
