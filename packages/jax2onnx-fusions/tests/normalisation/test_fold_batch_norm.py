"""Factors and summands behind convolutions."""

from __future__ import annotations

import pytest
from jax2onnx_fusions.normalisation.fold_batch_norm import FoldBatchNorm

CONV = """
    w = Constant<value = float[2,1,1,1] {2, 3}>() k = Constant<value = float[2,1,1] {5, 7}>()
    b = Constant<value = float[1,2,1,1] {-1, 4}>() c = Conv(x, w)
"""
IMAGES = ("float[B,1,5,8] x", "float[B,2,5,8] y")


@pytest.mark.parametrize("rest", ["y = Mul(c, k)", "y = Add(c, b)", "s = Mul(k, c) y = Add(b, s)", "y = Sub(c, b)"])
def test_factors_and_summands_go_into_the_convolution(fused, rest):
    assert fused(FoldBatchNorm(), CONV + rest, *IMAGES) == ["Conv"]


def test_transposed_convolution_takes_factors_too(fused):
    body = CONV.replace("float[2,1,1,1]", "float[1,2,1,1]").replace("Conv(x, w)", "ConvTranspose(x, w)")
    assert fused(FoldBatchNorm(), body + "s = Mul(k, c) y = Add(b, s)", *IMAGES) == ["ConvTranspose"]


def test_factors_reach_the_convolution_through_a_transpose(fused):
    body = CONV + "t = Transpose<perm = [0,2,3,1]>(c) last = Constant<value = float[2] {5, 7}>() y = Mul(t, last)"
    assert fused(FoldBatchNorm(), body, "float[B,1,5,8] x", "float[B,5,8,2] y") == ["Conv", "Transpose"]


def test_summands_reach_the_convolution_through_views(fused):
    views = "sizes = Constant<value = int64[5] {1,3,2,5,8}>() v = Reshape(c, sizes) s = Squeeze(v, first) y = Add(s, b)"
    body = CONV + "first = Constant<value = int64[1] {0}>()" + views
    assert fused(FoldBatchNorm(), body, "float[3,1,5,8] x", "float[3,2,5,8] y") == ["Conv", "Reshape", "Squeeze"]


def test_channels_that_are_merged_with_the_batch_keep_their_summands(fused):
    body = CONV + "sizes = Constant<value = int64[3] {2, 5, 8}>() v = Reshape(c, sizes) y = Add(v, k)"
    assert fused(FoldBatchNorm(), body, "float[1,1,5,8] x", "float[2,5,8] y") == ["Conv", "Reshape"]
    body = body.replace("{2, 5, 8}", "{6, 5, 8}").replace("float[2,1,1] {5, 7}", "float[6,1,1] {1,2,3,4,5,6}")
    assert fused(FoldBatchNorm(), body, "float[3,1,5,8] x", "float[6,5,8] y") == ["Conv", "Reshape", "Add"]


@pytest.mark.parametrize("conv", ["Conv(x, w)", "Conv(x, given)"])
def test_an_input_becomes_the_bias_of_a_convolution_without_one(fused, conv):
    vector = "axes = Constant<value = int64[2] {1, 2}>() u = Unsqueeze(v, axes)"
    body = CONV.replace("Conv(x, w)", conv) + vector + "y = Add(c, u)"
    inputs = f"{IMAGES[0]}, float[2,1,1,1] given, float[2] v"
    assert [op for op in fused(FoldBatchNorm(), body, inputs, IMAGES[1]) if op != "Unsqueeze"] == ["Conv"]
    body = body.replace("Add(c, u)", "Mul(c, u)")
    assert "Mul" in fused(FoldBatchNorm(), body, inputs, IMAGES[1])


@pytest.mark.parametrize("summand", ["state", "v"])
def test_a_convolution_outside_of_a_loop_takes_no_bias_from_there(fused, summand):
    inside = f"u = Unsqueeze({summand}, axes) z = Add(c, u) new = ReduceSum<keepdims = 0>(z, axes) on = Identity(go)"
    body = f"""{CONV} axes = Constant<value = int64[3] {{0, 2, 3}}>() n = Constant<value = int64 {{3}}>() t = Constant<value = bool {{1}}>()
        y = Loop(n, t, v) <body = b (int64 i, bool go, float[2] state) => (bool on, float[2] new) <float[1,2,1,1] u> {{ {inside} }}>"""
    assert fused(FoldBatchNorm(), body, f"{IMAGES[0]}, float[2] v", "float[2] y") == ["Conv", "Loop"]


def test_attributes_of_the_convolution_stay(rewrite):
    head = '<ir_version: 10, opset_import: ["" : 23]>'
    text = f"{head} main (float[B,1,5,8] x) => (float[B,2,5,8] y) {{ {CONV} y = Mul(c, k) }}"
    text = text.replace("Conv(x, w)", 'Conv<auto_pad = "SAME_UPPER", kernel_shape = [1, 1]>(x, w)')
    assert rewrite(FoldBatchNorm(), text) == ["Conv{SAME_UPPER, [1, 1]}(x, [[[[10.0]]], [[[21.0]]]], [0.0, 0.0])"]


@pytest.mark.parametrize(("numbers", "ops"), [("5,5,7,7", ["Conv"]), ("5,5,7,8", ["Conv", "Add"])])
def test_a_summand_that_repeats_a_number_per_channel_is_a_bias(fused, numbers, ops):
    body = f"{CONV} r = Constant<value = float[2,1,2] {{{numbers}}}>() y = Add(c, r)"
    assert fused(FoldBatchNorm(), body, "float[B,1,1,2] x", "float[B,2,1,2] y") == ops


def test_a_convolution_with_another_reader_stays(fused):
    assert fused(FoldBatchNorm(), CONV + "s = Mul(c, k) y = Add(c, s)", *IMAGES) == ["Conv", "Mul", "Add"]


def test_a_factor_per_column_stays(fused):
    body = CONV + "f = Constant<value = float[8] {1,2,3,4,5,6,7,8}>() y = Mul(c, f)"
    assert fused(FoldBatchNorm(), body, *IMAGES) == ["Conv", "Mul"]


@pytest.mark.parametrize(
    ("body", "inputs", "reason"),
    [
        (
            CONV + "s = Mul(c, k) y = Add(c, s)",
            IMAGES[0],
            "the result of the convolution has a second reader",
        ),
        (
            CONV.replace("w = Constant<value = float[2,1,1,1] {2, 3}>()", "") + "y = Mul(c, k)",
            f"{IMAGES[0]}, float[2,1,1,1] w",
            "the weights of the convolution are not constant",
        ),
        (
            CONV.replace("Conv(x, w)", "Conv(x, w, given)") + "y = Mul(c, k)",
            f"{IMAGES[0]}, float[2] given",
            "the bias of the convolution is not constant",
        ),
        (
            CONV.replace("Conv(x, w)", "ConvTranspose<group = 2>(x, w)") + "y = Mul(c, k)",
            "float[B,2,5,8] x",
            "the transposed convolution is grouped",
        ),
        (
            CONV.replace("{5, 7}", "{5, inf}") + "y = Mul(c, k)",
            IMAGES[0],
            "the factor or summand is not finite",
        ),
        (
            CONV.replace("{5, 7}", "{5, nan}") + "y = Add(c, k)",
            IMAGES[0],
            "the factor or summand is not finite",
        ),
        (
            CONV.replace("{5, 7}", "{5, 2e38}") + "y = Mul(c, k)",
            IMAGES[0],
            "the weights times the factor would overflow",
        ),
    ],
)
def test_reasons(declined, body, inputs, reason):
    assert declined(FoldBatchNorm(), body, inputs, IMAGES[1]) == [reason]


def test_a_factor_per_column_has_no_reason(declined):
    body = CONV + "f = Constant<value = float[8] {1,2,3,4,5,6,7,8}>() y = Mul(c, f)"
    assert declined(FoldBatchNorm(), body, *IMAGES) == []
