"""Passes that recognise recurrent layers in loops, and join their directions."""
