"""Passes that find attention in a graph, however it is written."""
