"""Passes that rewrite graphs by what operators are."""
