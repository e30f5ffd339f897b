"""Passes that make recurrent operators of loops, and fold and join their directions."""
