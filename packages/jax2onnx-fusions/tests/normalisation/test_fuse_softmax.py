"""Formulas of softmax and its logarithm."""

from __future__ import annotations

import numpy as np
import pytest
from jax2onnx_fusions.normalisation.fuse_softmax import FuseSoftmax
from jax2onnx_graph.forms import Form

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


SELECTED = """
    c = Constant<value = float {0}>() low = Constant<value = float {-inf}>() last = Constant<value = int64[1] {-1}>() k = Less(c, x)
    w = Where(k, x, low) m = ReduceMax<keepdims = 1>(w, last) s = Sub(w, m) e = Exp(s) v = Where(k, e, c)
    t = ReduceSum<keepdims = 1>(v, last) p = Div(e, t) y = Where(k, p, c)
"""


@pytest.mark.filterwarnings("ignore:invalid value", "ignore:divide by zero")  # rows that hide everything
@pytest.mark.parametrize(
    ("old", "new", "is_formed"),
    [
        ("", "", True),
        ("v = Where(k, e, c)", "n = Not(k) v = Where(n, e, c)", False),
        ("low = Constant<value = float {-inf}>", "low = Constant<value = float {-100}>", False),
        ("v = Where(k, e, c)", "one = Constant<value = float {1}>() v = Where(k, e, one)", False),
    ],
)
def test_softmax_of_what_a_mask_selects(fused, old, new, is_formed):
    """The sum leaves out what is hidden, and is 0 where everything is."""
    assert ("Softmax" in fused(FuseSoftmax(), SELECTED.replace(old, new))) is is_formed


def test_softmax_of_logits_without_their_maximum(fused):
    end = "m = ReduceMax<keepdims = 1>(x, last) s = Sub(x, m) y = Softmax<axis = -1>(s)"
    body = "last = Constant<value = int64[1] {-1}>() " + end
    assert fused(FuseSoftmax(), body) == ["Softmax"]
    assert "Sub" in fused(FuseSoftmax(), body.replace("axis = -1", "axis = 0"))


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
        (
            "last = Constant<value = int64[1] {-1}>() e = Exp(x) t = ReduceSum(e, last) l = Log(t) y = Sub(x, l)",
            {},
            "the maximum is not taken off, so that the formula overflows where the operator does not",
        ),
    ],
)
def test_reasons(declined, limited, body, limits, reason):
    assert declined(FuseSoftmax(limited(**limits)), body) == [reason]


def test_another_quotient_has_no_reason(declined):
    assert declined(FuseSoftmax(), "e = Exp(x) y = Div(e, x)") == []
