"""`Max` and `Min` as ReLU and Clip."""

from __future__ import annotations

import numpy as np
import pytest
from jax2onnx_fusions.activations.fuse_relu import FuseRelu
from jax2onnx_graph.forms import Form

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
def test_relu(fused, body, expected):
    assert fused(FuseRelu(), RELU_CONSTANTS + body) == expected


def test_the_maximum_with_minus_zero_stays(fused):
    assert fused(FuseRelu(), "zero = Constant<value = float {-0.0}>() y = Max(x, zero)") == ["Max"]


def test_a_minimum_with_nan_stays(fused):
    body = RELU_CONSTANTS.replace("{6}", "{nan}") + "r = Max(x, zero) y = Min(r, six)"
    assert fused(FuseRelu(), body) == ["Relu", "Min"]


def test_the_maximum_of_integers_stays(fused):
    body = "zero = Constant<value = int32 {0}>() y = Max(x, zero)"
    assert fused(FuseRelu(), body, "int32[B,5] x", "int32[B,5] y") == ["Max"]


@pytest.mark.parametrize(("missing", "expected"), [("Clip", ["Relu", "Min"]), ("Relu", ["Max", "Min"])])
def test_a_target_without_relu_or_clip_gets_none(fused, limited, missing, expected):
    body = RELU_CONSTANTS + "r = Max(x, zero) y = Min(r, six)"
    assert fused(FuseRelu(limited(missing, opset=18)), body) == expected


def test_a_target_may_prefer_the_maximum(fused, limited):
    assert fused(FuseRelu(limited(avoided={Form.RELU})), RELU_CONSTANTS + "y = Max(x, zero)") == ["Max"]


@pytest.mark.parametrize(
    ("body", "limits", "reason"),
    [
        ("y = Max(x, zero)", {"dtypes": [np.float64]}, "the target has no Relu for float32"),
        ("y = Max(x, zero)", {"avoided": {Form.RELU}}, "the target prefers Max"),
        ("r = Relu(x) y = Min(r, six)", {"dtypes": [np.float64]}, "the target has no Clip for float32"),
        ("r = Relu(x) y = Min(r, six)", {"avoided": {Form.CLIP}}, "the target prefers Min"),
        ("r = Relu(x) y = Min(r, zero)", {}, "the upper bound of the ReLU is not positive"),
        (
            "least = Constant<value = float {-0.0}>() y = Max(x, least)",
            {},
            "the bound is -0.0, which Relu does not give",
        ),
    ],
)
def test_reasons(declined, limited, body, limits, reason):
    assert declined(FuseRelu(limited(**limits)), RELU_CONSTANTS + body) == [reason]


def test_another_maximum_has_no_reason(declined):
    assert declined(FuseRelu(), RELU_CONSTANTS + "y = Max(x, six)") == []
