"""Promises of the user about numbers, and the targets of models that are made under them."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from jax2onnx_graph.assumptions import Assumption, parse_assumptions
from jax2onnx_graph.errors import OptionError
from jax2onnx_graph.metadata import read_assumptions, write_assumptions
from jax2onnx_graph.targets import Target, standard_target

FLOAT32 = np.dtype(np.float32)
FINITE = frozenset({Assumption.FINITE})


@pytest.mark.parametrize("given", [["finite"], ("finite", "finite"), [Assumption.FINITE]])
def test_an_assumption_is_named_by_text_or_by_itself(given):
    assert parse_assumptions(given) == FINITE


@pytest.mark.parametrize("given", [None, (), []])
def test_nothing_is_assumed_by_default(given):
    assert parse_assumptions(given) == frozenset()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["finit"], "there is no assumption 'finit'; there are: 'finite'"),
        ([3], "there is no assumption 3"),
        ("finite", r"write assume=\['finite'\]"),
        (3, "assume is a list of assumptions"),
    ],
)
def test_an_unknown_assumption_is_an_error(given, message):
    with pytest.raises(OptionError, match=message):
        parse_assumptions(given)


def test_a_target_that_assumes_finite_numbers_keeps_nan():
    class Losing(Target):
        def guarantees(self, op_type, dtype, kept):
            return False

    target = Losing()
    assumed = target.assuming(FINITE)
    assert isinstance(assumed, Losing)
    assert assumed.assumes(Assumption.FINITE)
    assert not target.assumes(Assumption.FINITE)
    kept = {kept: assumed.keeps("ReduceMax", FLOAT32, kept) for kept in ("nan", "inf", "empty")}
    assert kept == {"nan": True, "inf": False, "empty": False}


def test_a_target_that_is_right_for_masks_keeps_infinities_where_numbers_are_finite():
    class RightForMasks(Target):
        def guarantees(self, op_type, dtype, kept):
            return op_type == "Softmax" and kept == "minus_inf"

    assumed = RightForMasks().assuming(FINITE)
    assert assumed.keeps("Softmax", FLOAT32, "inf")
    assert not assumed.keeps("ReduceMax", FLOAT32, "inf")


def test_nothing_new_to_assume_is_the_same_target():
    assert standard_target.assuming(()) is standard_target
    assumed = standard_target.assuming(FINITE)
    assert assumed.assuming(FINITE).assumptions == FINITE


def test_a_model_says_what_it_assumes():
    model = ir.from_onnx_text('<ir_version: 10, opset_import: ["" : 21]> g (float[2] x) => (float[2] y) { y = Abs(x) }')
    assert read_assumptions(model) == []
    write_assumptions(model, FINITE)
    assert read_assumptions(model) == ["finite"]
