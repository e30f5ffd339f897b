"""Structural passes: they rewrite graphs by the facts of operators and know no formula of any layer."""
