"""Editing graphs: walks, patterns, the editor, the base class of passes."""
