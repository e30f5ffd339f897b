"""Texts: tokenizers, the files that they come in, and text that comes token by token."""
