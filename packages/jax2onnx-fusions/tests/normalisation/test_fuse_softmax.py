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


NAN = "a = Abs(x) h = ReduceSum<keepdims = 0>(a, last) nn = IsNaN(h) m = Where(nn, h, m0)"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("IsNaN(h)", "IsNaN(m0)"), ("IsNaN(h)", "IsInf(h)"), ("Abs(x)", "Neg(x)"), ("Abs(x)", "Abs(z)"), ("Where(nn, h, m0)", "Where(nn, m0, h)"),
        ("ReduceSum<", "ReduceMax<"), ("Where(nn, h, m0)", "Max(h, m0)"),
    ],
)  # fmt: skip
def test_softmax_behind_a_maximum_with_something_else_stays(fused, old, new):
    text = SOFTMAX.replace("m = ReduceMax", "m0 = ReduceMax").replace("mk = Unsq", f"{NAN} mk = Unsq") + QUOTIENT
    assert text.count(old) >= 1
    assert "Softmax" not in fused(FuseSoftmax(), text.replace(old, new, 1), "float[B,5,8] x, float[B,5,8] z")


@pytest.mark.parametrize(
    ("old", "new", "is_formed"),
    [
        ("Sub(x, mk)", "Sub(mk, x)", False), ("Sub(x, mk)", "Add(x, mk)", False), ("ReduceMax<", "ReduceMin<", False), ("(e, last)", "(s, last)", False),
        ("t = ReduceSum", "t = ReduceMax", False), ("mk = Unsqueeze(m, last)", "f = Unsqueeze(m, last) mk = Identity(f)", True),
        ("m = ReduceMax<keepdims = 0>(x, last) mk = Unsqueeze(m, last)", "mk = ReduceMax(x, middle)", False), ("mk = Unsqueeze(m, last)", "f = Max(m, low) mk = Unsqueeze(f, last)", True),
        ("mk = Unsqueeze(m, last)", "f = Max(low, m) mk = Unsqueeze(f, last)", True), ("mk = Unsqueeze(m, last)", "f = Max(m, nought) mk = Unsqueeze(f, last)", False),
        ("Exp(s)", "Tanh(s)", False),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:invalid value", "ignore:divide by zero")  # logarithms of other sums
@pytest.mark.parametrize("end", [QUOTIENT, DIFFERENCE])
def test_formulas_that_nearly_are_a_softmax(fused, old, new, is_formed, end):
    given = "middle = Constant<value = int64[1] {1}>() low = Constant<value = float {-inf}>() nought = Constant<value = float {0}>() "
    text = given + SOFTMAX
    assert text.count(old) == 1
    operators = fused(FuseSoftmax(), text.replace(old, new) + end)
    assert any("Softmax" in operator for operator in operators) is is_formed


@pytest.mark.parametrize(
    "end", ["y = Div(t, e)", "y = Mul(e, t)", "l = Exp(t) y = Sub(s, l)", "l = Log(t) y = Sub(l, s)", "l = Log(t) y = Add(s, l)", "l = Log(t) y = Sub(e, l)"]
)  # fmt: skip
def test_other_ends_of_a_softmax_stay(fused, end):
    assert not any("Softmax" in operator for operator in fused(FuseSoftmax(), SOFTMAX + end))


ALIGNED = [("[3,3]", False), ("[1,3,3]", False), ("[2,2,2]", False), ("[3]", True), ("[1,3]", True), ("[1,1,3]", True)]
WITHOUT_AXIS = """
    last = Constant<value = int64[1] {-1}>() m = ReduceMax<keepdims = 0>(x, last) s = Sub(x, m) e = Exp(s) t = ReduceSum<keepdims = 0>(e, last)
"""


@pytest.mark.parametrize(("shape", "is_formed"), ALIGNED)
@pytest.mark.parametrize("end", [QUOTIENT, DIFFERENCE])
@pytest.mark.parametrize("kept", ["nothing", "m = ReduceMax", "t = ReduceSum"])
def test_numbers_without_the_axis_of_the_rows_meet_other_axes(fused, shape, is_formed, end, kept):
    """Of a square x, `x - max(x, -1)` takes the maximum of row i off column i."""
    text = WITHOUT_AXIS.replace(f"{kept}<keepdims = 0>", kept)
    operators = fused(FuseSoftmax(), text + end, f"float{shape} x", f"float{shape} y")
    assert any("Softmax" in operator for operator in operators) is is_formed


@pytest.mark.parametrize(
    ("view", "is_formed"), [("Expand(f, whole)", False), ("Unsqueeze(f, last) m = Expand(g, whole)", True)]
)
def test_expanded_numbers_without_the_axis_of_the_rows_meet_other_axes(fused, view, is_formed):
    whole = "whole = Constant<value = int64[2] {3, 3}>()"
    text = WITHOUT_AXIS.replace("m = ", "f = ").replace("s = Sub", f"{'g' if is_formed else 'm'} = {view} s = Sub")
    operators = fused(
        FuseSoftmax(),
        whole + text.replace("t = ReduceSum<keepdims = 0>", "t = ReduceSum") + QUOTIENT,
        "float[3,3] x",
        "float[3,3] y",
    )
    assert ("Softmax" in operators) is is_formed


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
