"""Layer norm and RMS norm in all spellings."""

from __future__ import annotations

import numpy as np
import pytest
from jax2onnx_graph.passes.fusion.fuse_layer_norm import FuseLayerNorm
from jax2onnx_graph.passes.fusion.fuse_rms_norm import FuseRmsNorm

TWO_MOMENTS = """
    last = Constant<value = int64[1] {-1}>() two = Constant<value = float {2}>() zero = Constant<value = float {0}>()
    eps = Constant<value = float {0.000001}>()
    m = ReduceMean(x, last) xx = Mul(x, x) mm = ReduceMean(xx, last) m2 = Mul(m, m)
    v = Sub(mm, m2) v0 = Max(v, zero) ve = Add(v0, eps) s = Sqrt(ve) d = Sub(x, m)
"""
CENTRED = """
    one = Constant<value = int64[1] {1}>() last = Constant<value = int64[1] {2}>() n = Constant<value = float {8}>()
    eps = Constant<value = float {0.000001}>() two = Constant<value = float {2}>()
    sum = ReduceSum<keepdims = 0>(x, last) mean = Div(sum, n) m = Unsqueeze(mean, last) d = Sub(x, m)
    dd = Pow(d, two) ss = ReduceSum<keepdims = 0>(dd, last) vv = Div(ss, n) v = Unsqueeze(vv, last)
    ve = Add(v, eps) s = Sqrt(ve)
"""
SCALE = "g = Constant<value = float[8] {1,2,3,4,5,6,7,8}>()"
BIAS = "b = Constant<value = float[1,1,8] {8,7,6,5,4,3,2,1}>()"


@pytest.mark.parametrize("statistics", [TWO_MOMENTS, TWO_MOMENTS.replace("Max(v, zero)", "Relu(v)"), CENTRED])
@pytest.mark.parametrize(
    "rest",
    [
        "y = Div(d, s)",
        "r = Reciprocal(s) y = Mul(r, d)",
        f"{SCALE} r = Reciprocal(s) f = Mul(r, g) y = Mul(d, f)",
        f"{SCALE} {BIAS} r = Reciprocal(s) f = Mul(r, g) z = Mul(d, f) y = Add(z, b)",
        f"{SCALE} {BIAS} n1 = Div(d, s) z = Mul(n1, g) y = Add(z, b)",
    ],
)
def test_layer_norm_in_all_spellings(recover, statistics, rest):
    assert recover(FuseLayerNorm(), statistics + rest) == ["LayerNormalization"]


@pytest.mark.parametrize(("epsilon", "is_found"), [("0.00001", False), ("0.0009765625", True)])
def test_the_epsilon_of_doubles_must_be_one_of_float(recover, epsilon, is_found):
    body = f"""
        last = Constant<value = int64[1] {{-1}}>() eps = Constant<value = double {{{epsilon}}}>() xx = Mul(x, x)
        m = ReduceMean(xx, last) me = Add(m, eps) s = Sqrt(me) y = Div(x, s)
    """
    found = recover(FuseRmsNorm(), body, "double[2,3,8] x", "double[2,3,8] y")
    assert ("RMSNormalization" in found) is is_found


@pytest.mark.parametrize("leading", [0, 1, 2])
def test_layer_norm_whose_weights_have_leading_axes(recover, leading):
    dims = ",".join(["1"] * leading + ["8"])
    weights = f"k = Constant<value = float[{dims}] {{1,2,3,4,5,6,7,8}}>() b = Constant<value = float[{dims}] {{8,7,6,5,4,3,2,1}}>()"
    body = weights + TWO_MOMENTS + "r = Reciprocal(s) rk = Mul(r, k) n = Mul(d, rk) y = Add(n, b)"
    assert recover(FuseLayerNorm(), body) == ["LayerNormalization"]


def test_layer_norm_over_another_axis_stays(recover):
    other = TWO_MOMENTS.replace("{-1}", "{1}")
    assert "LayerNormalization" not in recover(FuseLayerNorm(), other + "y = Div(d, s)")


def test_layer_norm_with_misaligned_statistics_stays(recover):
    body = CENTRED.replace(
        "m = Unsqueeze(mean, last)", "lead = Constant<value = int64[1] {0}>() m = Unsqueeze(mean, lead)"
    )
    body = body.replace("{8}", "{4}")
    operators = recover(FuseLayerNorm(), body + "y = Div(d, s)", "float[4,4,4] x", "float[4,4,4] y")
    assert "LayerNormalization" not in operators


def test_a_target_without_layer_norm_gets_none(recover, limited):
    target = limited("LayerNormalization", opset=18)
    assert "LayerNormalization" not in recover(FuseLayerNorm(target), TWO_MOMENTS + "y = Div(d, s)")


def test_a_target_with_layer_norm_in_double_precision_alone_gets_none_in_single(recover, limited):
    target = limited(dtypes=[np.float64])
    assert "LayerNormalization" not in recover(FuseLayerNorm(target), TWO_MOMENTS + "y = Div(d, s)")


RMS = """
    last = Constant<value = int64[1] {-1}>() eps = Constant<value = float {0.000001}>()
    xx = Mul(x, x) mm = ReduceMean(xx, last) me = Add(eps, mm) s = Sqrt(me)
"""


@pytest.mark.parametrize(
    "rest",
    [
        "y = Div(x, s)",
        f"{SCALE} r = Reciprocal(s) n = Mul(x, r) y = Mul(g, n)",
        f"{SCALE} r = Reciprocal(s) f = Mul(g, r) y = Mul(f, x)",
    ],
)
def test_rms_norm_in_all_spellings(recover, rest):
    assert recover(FuseRmsNorm(), RMS + rest) == ["RMSNormalization"]


def test_rms_norm_needs_opset_23(recover):
    assert "RMSNormalization" not in recover(FuseRmsNorm(), RMS + "y = Div(x, s)", opset=22)


def test_a_target_of_opset_18_gets_no_rms_norm(recover, limited):
    assert "RMSNormalization" not in recover(FuseRmsNorm(limited(opset=18)), RMS + "y = Div(x, s)")
