"""Editing graphs: the editor, the base classes of passes, patterns, permutations of axes."""
