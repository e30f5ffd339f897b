"""Formulas of RMS norm."""

from __future__ import annotations

import pytest
from jax2onnx_fusions.normalisation.fuse_rms_norm import FuseRmsNorm

SCALE = "g = Constant<value = float[8] {1,2,3,4,5,6,7,8}>()"
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
        f"{SCALE} n = Mul(g, x) y = Div(n, s)",
        f"{SCALE} r = Reciprocal(s) n = Mul(x, g) y = Mul(r, n)",
    ],
)
def test_rms_norm_in_all_spellings(fused, rest):
    assert fused(FuseRmsNorm(), RMS + rest) == ["RMSNormalization"]


@pytest.mark.parametrize(("shape", "is_formed"), [("[8,8]", False), ("[8]", True), ("[1,8]", True)])
@pytest.mark.parametrize(
    "end",
    ["y = Div(x, s)", "r = Reciprocal(s) y = Mul(x, r)", f"{SCALE} r = Reciprocal(s) f = Mul(r, g) y = Mul(x, f)"],
)
def test_numbers_without_the_axis_of_the_rows_meet_other_axes(fused, shape, is_formed, end):
    text = RMS.replace("ReduceMean(", "ReduceMean<keepdims = 0>(") + end
    assert ("RMSNormalization" in fused(FuseRmsNorm(), text, f"float{shape} x", f"float{shape} y")) is is_formed


def test_a_quotient_by_numbers_of_other_axes_gives_no_reason(declined):
    text = RMS.replace("ReduceMean(", "ReduceMean<keepdims = 0>(").replace(
        "s = Sqrt(me)", "s0 = Sqrt(mm) s = Add(s0, eps)"
    )
    assert declined(FuseRmsNorm(), text + "y = Div(x, s)", "float[8,8] x", "float[8,8] y") == []


def test_rms_norm_needs_opset_23(fused):
    assert "RMSNormalization" not in fused(FuseRmsNorm(), RMS + "y = Div(x, s)", opset=22)


def test_a_target_of_opset_18_gets_no_rms_norm(fused, limited):
    assert "RMSNormalization" not in fused(FuseRmsNorm(limited(opset=18)), RMS + "y = Div(x, s)")


@pytest.mark.parametrize(("epsilon", "is_found"), [("0.00001", False), ("0.0009765625", True)])
def test_the_epsilon_of_doubles_must_be_one_of_float(fused, epsilon, is_found):
    body = f"""
        last = Constant<value = int64[1] {{-1}}>() eps = Constant<value = double {{{epsilon}}}>() xx = Mul(x, x)
        m = ReduceMean(xx, last) me = Add(m, eps) s = Sqrt(me) y = Div(x, s)
    """
    found = fused(FuseRmsNorm(), body, "double[2,3,8] x", "double[2,3,8] y")
    assert ("RMSNormalization" in found) is is_found


def test_an_epsilon_that_is_no_float_is_a_reason(declined):
    body = """
        last = Constant<value = int64[1] {-1}>() eps = Constant<value = double {0.00001}>() xx = Mul(x, x)
        m = ReduceMean(xx, last) me = Add(m, eps) s = Sqrt(me) y = Div(x, s)
    """
    reasons = declined(FuseRmsNorm(), body, "double[2,3,8] x", "double[2,3,8] y")
    assert reasons == ["epsilon is 1e-05, which the attribute, a float32, cannot hold"]


@pytest.mark.parametrize(
    ("rest", "reason"),
    [
        ("r = Sqrt(m) s = Add(r, eps) y = Div(x, s)",
         "epsilon, 0.001, is added behind the square root, and the operator adds it under the root"),
        ("r = Sqrt(m) y = Div(x, r)", "no epsilon is added under the square root"),
    ],
)  # fmt: skip
def test_another_epsilon_is_a_reason(declined, rest, reason):
    body = """last = Constant<value = int64[1] {-1}>() eps = Constant<value = float {0.001}>()
        xx = Mul(x, x) m = ReduceMean(xx, last)"""
    assert declined(FuseRmsNorm(), body + rest) == [reason]


def test_a_difference_that_is_nearly_a_layer_norm_has_no_reason(declined):
    body = """last = Constant<value = int64[1] {-1}>() m = ReduceMean(x, last) d = Sub(x, m) dd = Mul(d, d)
        v = ReduceMean(dd, last) s = Sqrt(v) y = Div(d, s)"""
    assert declined(FuseRmsNorm(), body) == []
