"""Gelu, ReLU, the logistic function and softmax in all spellings."""

from __future__ import annotations

import pytest
from jax2onnx_graph.forms import Form
from jax2onnx_graph.passes.fusion.fuse_gelu import FuseGelu
from jax2onnx_graph.passes.fusion.fuse_relu import FuseRelu
from jax2onnx_graph.passes.fusion.fuse_silu import FuseSilu
from jax2onnx_graph.passes.fusion.fuse_softmax import FuseSoftmax

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
def test_gelu_in_all_spellings(recover, body):
    assert recover(FuseGelu(), GELU_CONSTANTS + body) == ["Gelu"]


def test_something_like_gelu_stays(recover):
    body = "v = Div(x, one) e = Erf(v) w = Add(e, one) z = Mul(x, w) y = Mul(z, half)"
    assert "Gelu" not in recover(FuseGelu(), GELU_CONSTANTS + body)


def test_gelu_needs_opset_20(recover):
    assert "Gelu" not in recover(FuseGelu(), GELU_CONSTANTS + GELU, opset=19)


def test_a_target_of_opset_18_gets_no_gelu(recover, limited):
    assert "Gelu" not in recover(FuseGelu(limited(opset=18)), GELU_CONSTANTS + GELU)


def test_a_target_whose_gelu_is_not_accurate_gets_none(recover, limited):
    target = limited(lost={("Gelu", "accurate")})
    assert "Gelu" not in recover(FuseGelu(target), GELU_CONSTANTS + GELU)


RELU_CONSTANTS = "zero = Constant<value = float {0}>() six = Constant<value = float {6}>()"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("y = Max(x, zero)", ["Relu"]),
        ("y = Max(zero, x)", ["Relu"]),
        ("r = Max(x, zero) y = Min(r, six)", ["Clip"]),
        ("r = Relu(x) y = Min(six, r)", ["Clip"]),
        ("y = Max(x, six)", ["Max"]),
    ],
)
def test_relu(recover, body, expected):
    assert recover(FuseRelu(), RELU_CONSTANTS + body) == expected


def test_the_maximum_of_integers_stays(recover):
    body = "zero = Constant<value = int32 {0}>() y = Max(x, zero)"
    assert recover(FuseRelu(), body, "int32[B,5] x", "int32[B,5] y") == ["Max"]


@pytest.mark.parametrize(("missing", "expected"), [("Clip", ["Relu", "Min"]), ("Relu", ["Max", "Min"])])
def test_a_target_without_relu_or_clip_gets_none(recover, limited, missing, expected):
    body = RELU_CONSTANTS + "r = Max(x, zero) y = Min(r, six)"
    assert recover(FuseRelu(limited(missing, opset=18)), body) == expected


def test_a_target_may_prefer_the_maximum(recover, limited):
    assert recover(FuseRelu(limited(avoided={Form.RELU})), RELU_CONSTANTS + "y = Max(x, zero)") == ["Max"]


LOGISTIC = "one = Constant<value = float {1}>() n = Neg(x) e = Exp(n) d = Add(one, e)"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("y = Reciprocal(d)", ["Sigmoid"]),
        ("y = Div(one, d)", ["Sigmoid"]),
        ("y = Div(x, d)", ["Sigmoid", "Mul"]),
    ],
)
def test_sigmoid_and_silu(recover, body, expected):
    assert recover(FuseSilu(), LOGISTIC + body) == expected


@pytest.mark.parametrize("body", ["y = Reciprocal(d)", "y = Div(x, d)"])
def test_a_target_without_sigmoid_gets_none(recover, limited, body):
    assert "Sigmoid" not in recover(FuseSilu(limited("Sigmoid", opset=18)), LOGISTIC + body)


SOFTMAX = """
    last = Constant<value = int64[1] {-1}>()
    m = ReduceMax<keepdims = 0>(x, last) mk = Unsqueeze(m, last) s = Sub(x, mk) e = Exp(s)
    t = ReduceSum(e, last)
"""
QUOTIENT, DIFFERENCE = "y = Div(e, t)", "l = Log(t) y = Sub(s, l)"


@pytest.mark.parametrize(("rest", "expected"), [(QUOTIENT, ["Softmax"]), (DIFFERENCE, ["LogSoftmax"])])
def test_softmax(recover, rest, expected):
    assert recover(FuseSoftmax(), SOFTMAX + rest) == expected


def test_softmax_behind_a_maximum_that_keeps_nan(recover):
    nan = "a = Abs(x) h = ReduceSum<keepdims = 0>(a, last) nn = IsNaN(h) m = Where(nn, h, m0)"
    text = SOFTMAX.replace("m = ReduceMax", "m0 = ReduceMax").replace("mk = Unsq", f"{nan} mk = Unsq")
    assert recover(FuseSoftmax(), text + QUOTIENT) == ["Softmax"]


def test_softmax_without_the_maximum_stays(recover):
    body = "last = Constant<value = int64[1] {-1}>() e = Exp(x) t = ReduceSum(e, last) y = Div(e, t)"
    assert "Softmax" not in recover(FuseSoftmax(), body)


@pytest.mark.parametrize(("missing", "rest"), [("Softmax", QUOTIENT), ("LogSoftmax", DIFFERENCE)])
def test_a_target_without_softmax_gets_none(recover, limited, missing, rest):
    assert missing not in recover(FuseSoftmax(limited(missing, opset=18)), SOFTMAX + rest)


def test_a_target_whose_log_softmax_fails_at_infinity_gets_none(recover, limited):
    target = limited(lost={("LogSoftmax", "inf")})
    assert "LogSoftmax" not in recover(FuseSoftmax(target), SOFTMAX + DIFFERENCE)
