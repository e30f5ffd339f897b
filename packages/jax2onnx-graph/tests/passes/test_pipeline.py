"""The order of the default passes, and what they make for a target that has little."""

from __future__ import annotations

import pytest
from jax2onnx_graph.passes import default_passes
from jax2onnx_graph.rewrite.pass_base import GraphPass
from jax2onnx_graph.targets import standard_target

PASSES = [factory(standard_target) for factory in default_passes()]


def test_each_pass_runs_after_those_that_it_names():
    ran: set[type] = set()
    for one in PASSES:
        if isinstance(one, GraphPass):
            assert set(one.after) <= ran, type(one).__name__
        ran.add(type(one))


@pytest.mark.parametrize("one", [p for p in PASSES if isinstance(p, GraphPass)], ids=lambda p: type(p).__name__)
def test_the_docstring_of_a_pass_numbers_its_rules(one):
    assert "1. " in (type(one).__doc__ or "")
