"""Symbols are used again: nearly all symbolic dimensions of a model have a label of symbols of its inputs."""

from __future__ import annotations

import pytest
from label_table import TARGETS, labels_of_cases, total

# `tools/label_table.py` counts those of all cases.
SAMPLE = 60


@pytest.mark.parametrize("target", TARGETS)
def test_symbolic_dimensions_are_labelled(target: str) -> None:
    counts = labels_of_cases(target, every=SAMPLE)
    assert total(counts.values()).symbolic > 100
    assert total(counts.values()).share >= 0.95, counts
