"""Formulas of the logistic function."""

from __future__ import annotations

import numpy as np
import pytest
from jax2onnx_fusions.activations.fuse_silu import FuseSilu

LOGISTIC = "one = Constant<value = float {1}>() n = Neg(x) e = Exp(n) d = Add(one, e)"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("y = Reciprocal(d)", ["Sigmoid"]),
        ("y = Div(one, d)", ["Sigmoid"]),
        ("y = Div(x, d)", ["Sigmoid", "Mul"]),
    ],
)
def test_sigmoid_and_silu(fused, body, expected):
    assert fused(FuseSilu(), LOGISTIC + body) == expected


@pytest.mark.parametrize("body", ["y = Reciprocal(d)", "y = Div(x, d)"])
def test_a_target_without_sigmoid_gets_none(fused, limited, body):
    assert "Sigmoid" not in fused(FuseSilu(limited("Sigmoid", opset=18)), LOGISTIC + body)


@pytest.mark.parametrize(
    ("rest", "limits", "reason"),
    [
        ("y = Reciprocal(d)", {"dtypes": [np.float64]}, "the target has no Sigmoid for float32"),
        ("t = Tanh(x) y = Div(t, d)", {}, "the numerator over 1 + exp(-x) is neither 1 nor x"),
    ],
)
def test_reasons(declined, limited, rest, limits, reason):
    assert declined(FuseSilu(limited(**limits)), LOGISTIC + rest) == [reason]


def test_another_quotient_has_no_reason(declined):
    assert declined(FuseSilu(), "e = Exp(x) y = Div(x, e)") == []


@pytest.mark.parametrize(
    ("old", "new", "is_formed"),
    [
        ("Add(one, e)", "Add(e, one)", True), ("Add(one, e)", "Sub(one, e)", False), ("Add(one, e)", "Mul(one, e)", False), ("{1}", "{2}", False), ("{1}", "{-1}", False),
        ("Neg(x)", "Abs(x)", False), ("Exp(n)", "Exp(x)", False), ("Exp(n)", "Tanh(n)", False), ("Exp(n)", "Exp(z)", False), ("Div(x, d)", "Div(d, x)", False),
        ("Div(x, d)", "Div(n, d)", False), ("Div(x, d)", "Mul(x, d)", False),
    ],
)  # fmt: skip
def test_formulas_that_nearly_are_silu(fused, old, new, is_formed):
    text = LOGISTIC + "y = Div(x, d)"
    assert text.count(old) == 1
    operators = fused(FuseSilu(), text.replace(old, new), "float[B,5,8] x, float[B,5,8] z")
    assert ("Sigmoid" in operators) is is_formed
