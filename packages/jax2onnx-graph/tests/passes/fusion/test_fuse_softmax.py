"""Formulas of softmax and its logarithm."""

from __future__ import annotations

import numpy as np
import pytest
from jax2onnx_graph.forms import Form
from jax2onnx_graph.passes.fusion.fuse_softmax import FuseSoftmax

SOFTMAX = """
    last = Constant<value = int64[1] {-1}>()
    m = ReduceMax<keepdims = 0>(x, last) mk = Unsqueeze(m, last) s = Sub(x, mk) e = Exp(s)
    t = ReduceSum(e, last)
"""
QUOTIENT, DIFFERENCE = "y = Div(e, t)", "l = Log(t) y = Sub(s, l)"


@pytest.mark.parametrize(("rest", "expected"), [(QUOTIENT, ["Softmax"]), (DIFFERENCE, ["LogSoftmax"])])
def test_softmax(fused, rest, expected):
    assert fused(FuseSoftmax(), SOFTMAX + rest) == expected


def test_softmax_behind_a_maximum_that_keeps_nan(fused):
    nan = "a = Abs(x) h = ReduceSum<keepdims = 0>(a, last) nn = IsNaN(h) m = Where(nn, h, m0)"
    text = SOFTMAX.replace("m = ReduceMax", "m0 = ReduceMax").replace("mk = Unsq", f"{nan} mk = Unsq")
    assert fused(FuseSoftmax(), text + QUOTIENT) == ["Softmax"]


def test_softmax_without_the_maximum_stays(fused):
    body = "last = Constant<value = int64[1] {-1}>() e = Exp(x) t = ReduceSum(e, last) y = Div(e, t)"
    assert "Softmax" not in fused(FuseSoftmax(), body)


@pytest.mark.parametrize(("missing", "rest"), [("Softmax", QUOTIENT), ("LogSoftmax", DIFFERENCE)])
def test_a_target_without_softmax_gets_none(fused, limited, missing, rest):
    assert missing not in fused(FuseSoftmax(limited(missing, opset=18)), SOFTMAX + rest)


def test_a_target_whose_log_softmax_fails_at_infinity_gets_none(fused, limited):
    target = limited(lost={("LogSoftmax", "inf")})
    assert "LogSoftmax" not in fused(FuseSoftmax(target), SOFTMAX + DIFFERENCE)


FIRST = SOFTMAX.replace("{-1}", "{0}") + QUOTIENT
MIDDLE = SOFTMAX.replace("{-1}", "{1}") + QUOTIENT


@pytest.mark.parametrize(
    ("body", "limits", "reason"),
    [
        (SOFTMAX + QUOTIENT, {"dtypes": [np.float64]}, "the target has no Softmax for float32"),
        (
            SOFTMAX + DIFFERENCE,
            {"lost": {("LogSoftmax", "inf")}},
            "the target's LogSoftmax does not give the limit for infinite logits",
        ),
        (
            FIRST,
            {"avoided": {Form.SOFTMAX_FIRST_AXIS}},
            "the target prefers the formula over an axis that is not the last",
        ),
        (MIDDLE, {"avoided": {Form.SOFTMAX}}, "the target prefers the formula over an axis that is not the last"),
        (
            "last = Constant<value = int64[1] {-1}>() e = Exp(x) t = ReduceSum(e, last) y = Div(e, t)",
            {},
            "the maximum is not taken off, so that the formula overflows where the operator does not",
        ),
    ],
)
def test_reasons(declined, limited, body, limits, reason):
    assert declined(FuseSoftmax(limited(**limits)), body) == [reason]


def test_another_quotient_has_no_reason(declined):
    assert declined(FuseSoftmax(), "e = Exp(x) y = Div(e, x)") == []
