"""Sizes of symbols for running a model of symbolic shapes."""

from __future__ import annotations

import pytest
from jax2onnx_core.frontend.inputs import parse_inputs
from jax2onnx_core.plugins.errors import SymbolError
from jax2onnx_core.program.verification import choose_sizes, find_sizes


def parsed(specs, constraints=()):
    return parse_inputs(lambda *xs: xs, specs, {}, constraints)


def found(inputs, candidates, **options):
    return find_sizes(inputs.symbols, [aval.shape for aval in inputs.avals], candidates, **options)


def test_the_last_symbol_varies_fastest():
    assert found(parsed([("A", "B")], ["A + B >= 5"]), {"A": (1, 2), "B": (1, 3, 4)}) == {"A": 1, "B": 4}


def test_distinct_sizes_differ():
    inputs = parsed([("A", "B")])
    assert found(inputs, {"A": (3, 4), "B": (3, 4)}) == {"A": 3, "B": 3}
    assert found(inputs, {"A": (3, 4), "B": (3, 4)}, distinct=True) == {"A": 3, "B": 4}


def test_given_sizes_stay():
    assert found(parsed([("A", "B")], ["A >= B"]), {"A": (3, 4)}, given={"B": 4}) == {"A": 4, "B": 4}


def test_dimensions_are_not_negative():
    assert found(parsed([("A - 5",)], ["A >= 5"]), {"A": (3, 5)}) == {"A": 5}


def test_there_may_be_none():
    assert found(parsed([("A",)], ["A >= 9"]), {"A": (3, 4)}) is None


def test_models_are_verified_at_small_and_at_different_sizes():
    assert choose_sizes(parsed([("A", "B")]), ()) == [{"A": 1, "B": 1}, {"A": 7, "B": 12}, {"A": 12, "B": 2}]


def test_a_symbol_that_may_be_zero_is_verified_at_zero():
    assert choose_sizes(parsed([("A",)], ["A >= 0"]), ())[0] == {"A": 0}


def test_fixed_shapes_are_verified_once():
    assert choose_sizes(parsed([(3,)]), ()) == [{}]


def test_constraints_that_only_large_sizes_satisfy_need_sizes():
    with pytest.raises(SymbolError, match="No small sizes of A fit the constraints"):
        choose_sizes(parsed([("A",)], ["A >= 100"]), ())
