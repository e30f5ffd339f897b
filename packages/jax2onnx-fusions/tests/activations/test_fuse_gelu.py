"""Formulas of gelu."""

from __future__ import annotations

import numpy as np
import pytest
from jax2onnx_fusions.activations.fuse_gelu import FuseGelu

GELU_CONSTANTS = """
    half = Constant<value = float {0.5}>() one = Constant<value = float {1}>() three = Constant<value = float {3}>()
    a = Constant<value = float {0.044715}>() c = Constant<value = float {0.7978845834732056}>()
    q = Constant<value = float {1.41421354}>() h = Constant<value = float {0.70710677}>()
"""
GELU = "v = Div(x, q) e = Erf(v) w = Add(e, one) z = Mul(x, w) y = Mul(z, half)"


@pytest.mark.parametrize(
    "body",
    [
        GELU,
        "v = Mul(h, x) e = Erf(v) w = Add(one, e) z = Mul(half, x) y = Mul(z, w)",
        "n = Neg(x) v = Mul(n, h) e = Erf(v) w = Sub(one, e) z = Mul(half, x) y = Mul(z, w)",
        "p = Pow(x, three) k = Mul(a, p) t = Add(x, k) u = Mul(c, t) e = Tanh(u) w = Add(one, e) z = Mul(half, w) y = Mul(x, z)",
        """p = Mul(x, x) pp = Mul(p, x) k = Mul(pp, a) t = Add(k, x) u = Mul(t, c) e = Tanh(u) w = Add(e, one)
        z = Mul(x, w) y = Mul(half, z)""",
        """p = Mul(x, x) k = Mul(p, a) t = Add(k, one) cx = Mul(x, c) u = Mul(cx, t) e = Tanh(u) w = Add(e, one)
        z = Mul(x, half) y = Mul(z, w)""",
    ],
)
def test_gelu_in_all_spellings(fused, body):
    assert fused(FuseGelu(), GELU_CONSTANTS + body) == ["Gelu"]


def test_something_like_gelu_stays(fused):
    body = "v = Div(x, one) e = Erf(v) w = Add(e, one) z = Mul(x, w) y = Mul(z, half)"
    assert "Gelu" not in fused(FuseGelu(), GELU_CONSTANTS + body)


def test_gelu_needs_opset_20(fused):
    assert "Gelu" not in fused(FuseGelu(), GELU_CONSTANTS + GELU, opset=19)


def test_a_target_of_opset_18_gets_no_gelu(fused, limited):
    assert "Gelu" not in fused(FuseGelu(limited(opset=18)), GELU_CONSTANTS + GELU)


def test_a_target_whose_gelu_is_not_accurate_gets_none(fused, limited):
    target = limited(lost={("Gelu", "accurate")})
    assert "Gelu" not in fused(FuseGelu(target), GELU_CONSTANTS + GELU)


TANH = """p = Pow(x, three) k = Mul(a, p) t = Add(x, k) u = Mul(c, t) e = Tanh(u) w = Add(one, e) z = Mul(half, w)
    y = Mul(x, z)"""


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (GELU.replace("Div(x, q)", "Div(x, one)"), "the argument of Erf is not x / √2, x being the other factor"),
        (
            TANH.replace("Mul(a, p)", "Mul(half, p)"),
            "the argument of Tanh is not √(2/π) · (x + 0.044715 · x³), x being the other factor",
        ),
    ],
)
def test_a_curve_of_something_else_is_declined(declined, body, reason):
    assert declined(FuseGelu(), GELU_CONSTANTS + body) == [reason]


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        ({"dtypes": [np.float64]}, "the target has no Gelu for float32"),
        ({"lost": {("Gelu", "accurate")}}, "the target's Gelu is less accurate than the element type"),
    ],
)
def test_limits_of_the_target_are_a_reason(declined, limited, limits, reason):
    assert declined(FuseGelu(limited(**limits)), GELU_CONSTANTS + GELU) == [reason]


def test_a_curve_that_nothing_multiplies_has_no_reason(declined):
    assert declined(FuseGelu(), "e = Tanh(x) one = Constant<value = float {1}>() y = Add(e, one)") == []


FACTORED = """p = Mul(x, x) k = Mul(p, a) t = Add(k, one) cx = Mul(x, c) u = Mul(cx, t) e = Tanh(u) w = Add(e, one)
    z = Mul(x, half) y = Mul(z, w)"""


@pytest.mark.parametrize(
    ("body", "old", "new"),
    [
        (GELU, "Div(x, q)", "Div(q, x)"), (GELU, "Div(x, q)", "Mul(x, q)"), (GELU, "Div(x, q)", "Div(x, half)"), (GELU, "Div(x, q)", "Neg(x)"),
        (GELU, "Erf(v)", "Tanh(v)"), (GELU, "Erf(v)", "Sigmoid(v)"), (GELU, "Add(e, one)", "Sub(e, one)"), (GELU, "Add(e, one)", "Sub(one, e)"),
        (GELU, "Add(e, one)", "Add(e, half)"), (GELU, "Mul(x, w)", "Div(x, w)"), (GELU, "Mul(x, w)", "Mul(v, w)"), (GELU, "Mul(x, w)", "Add(x, w)"),
        (GELU, "Mul(z, half)", "Div(z, half)"), (GELU, "Mul(z, half)", "Mul(z, h)"), (GELU, "Mul(z, half)", "Mul(z, x)"), (GELU, "Mul(z, half)", "Neg(z)"),
        (TANH, "Pow(x, three)", "Pow(x, one)"), (TANH, "Pow(x, three)", "Pow(three, x)"), (TANH, "p = Pow(x, three)", "o = Pow(x, three) p = Mul(o, x)"),
        (TANH, "Mul(a, p)", "Mul(p, c)"), (TANH, "Mul(a, p)", "Div(p, a)"), (TANH, "Add(x, k)", "Sub(x, k)"), (TANH, "Add(x, k)", "Add(p, k)"),
        (TANH, "Mul(c, t)", "Mul(a, t)"), (TANH, "Mul(c, t)", "Div(t, c)"), (TANH, "Tanh(u)", "Erf(u)"), (TANH, "Add(one, e)", "Sub(one, e)"),
        (TANH, "Mul(half, w)", "Mul(one, w)"), (TANH, "y = Mul(x, z)", "y = Mul(t, z)"), (TANH, "y = Mul(x, z)", "y = Div(x, z)"),
        (FACTORED, "p = Mul(x, x)", "p = Pow(x, three)"), (FACTORED, "p = Mul(x, x)", "p = Neg(x)"), (FACTORED, "Add(k, one)", "Add(k, half)"), (FACTORED, "Add(k, one)", "Add(k, x)"),
        (FACTORED, "Mul(p, a)", "Mul(p, c)"), (FACTORED, "cx = Mul(x, c)", "cx = Mul(p, c)"), (FACTORED, "cx = Mul(x, c)", "cx = Neg(c)"),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore")  # quotients by numbers around zero
def test_formulas_that_nearly_are_gelu_stay(fused, body, old, new):
    assert body.count(old) == 1
    assert "Gelu" not in fused(FuseGelu(), GELU_CONSTANTS + body.replace(old, new))


def test_the_argument_may_be_negated_with_the_sum(fused):
    body = TANH.replace("u = Mul(c, t)", "u0 = Mul(c, t) u = Neg(u0)")
    assert "Gelu" not in fused(FuseGelu(), GELU_CONSTANTS + body)
    assert fused(FuseGelu(), GELU_CONSTANTS + body.replace("Add(one, e)", "Sub(one, e)")) == ["Gelu"]
