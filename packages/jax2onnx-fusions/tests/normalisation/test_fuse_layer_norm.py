"""Formulas of layer norm."""

from __future__ import annotations

import numpy as np
import pytest
from jax2onnx_fusions.normalisation.fuse_layer_norm import FuseLayerNorm

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
        f"{SCALE} {BIAS} n1 = Mul(g, d) z = Div(n1, s) y = Add(z, b)",
        f"{SCALE} r = Reciprocal(s) n1 = Mul(d, g) y = Mul(n1, r)",
    ],
)
def test_layer_norm_in_all_spellings(fused, statistics, rest):
    assert fused(FuseLayerNorm(), statistics + rest) == ["LayerNormalization"]


# Where means have the axis of the rows only if they are `kept`.
OF_ROWS = """
    last = Constant<value = int64[1] {-1}>() eps = Constant<value = float {0.000001}>() k = ReduceMean(x, last) c = Sub(x, k) cc = Mul(c, c)
    m = ReduceMean<keepdims = 0>(x, last) d = Sub(x, m) v = ReduceMean<keepdims = 0>(cc, last) ve = Add(v, eps) s = Sqrt(ve)
"""


@pytest.mark.parametrize(("shape", "is_formed"), [("[8,8]", False), ("[1,8,8]", False), ("[8]", True), ("[1,8]", True)])
@pytest.mark.parametrize("kept", ["nothing", "m = ReduceMean", "v = ReduceMean"])
@pytest.mark.parametrize(
    "end",
    ["y = Div(d, s)", "r = Reciprocal(s) y = Mul(d, r)", f"{SCALE} r = Reciprocal(s) f = Mul(r, g) y = Mul(d, f)"],
)
def test_numbers_without_the_axis_of_the_rows_meet_other_axes(fused, shape, is_formed, kept, end):
    """Of a square x, `x - mean(x, -1)` takes the mean of row i off column i."""
    text = OF_ROWS.replace(f"{kept}<keepdims = 0>", kept)
    assert (
        "LayerNormalization" in fused(FuseLayerNorm(), text + end, f"float{shape} x", f"float{shape} y")
    ) is is_formed


NUMBERS = "e8 = Constant<value = float {0.125}>() c1 = Constant<value = float {1}>() "


@pytest.mark.parametrize(
    ("old", "new", "is_formed"),
    [
        ("Max(v, zero)", "Max(zero, v)", True), ("Max(v, zero)", "Clip(v, zero)", True), ("Max(v, zero)", "Identity(v)", True),
        ("Max(v, zero)", "Clip(v, zero, two)", False), ("Max(v, zero)", "Clip(v, eps)", False), ("Max(v, zero)", "Max(v, eps)", False),
        ("Max(v, zero)", "Abs(v)", False), ("Max(v, zero)", "Min(v, two)", False), ("Sub(mm, m2)", "Sub(m2, mm)", False),
        ("Sub(mm, m2)", "Add(mm, m2)", False), ("Mul(m, m)", "Mul(m, mm)", False), ("Mul(m, m)", "Pow(m, two)", True), ("Mul(m, m)", "Pow(m, c1)", False),
        ("Mul(x, x)", "Pow(x, two)", True), ("Mul(x, x)", "Mul(x, m)", False), ("Sub(x, m)", "Sub(m, x)", False), ("Sub(x, m)", "Add(x, m)", False),
        ("Sub(x, m)", "Sub(x, mm)", False), ("Sub(x, m)", "Sub(xx, m)", False), ("Add(v0, eps)", "Add(eps, v0)", True), ("Add(v0, eps)", "Sub(v0, eps)", False),
        ("Add(v0, eps)", "Mul(v0, eps)", False), ("{0.000001}", "{0}", False), ("{0.000001}", "{-0.000001}", False),
        ("mm = ReduceMean", "mm = ReduceSum", False), ("mm = ReduceMean", "mm = ReduceMax", False), (" m = ReduceMean", " m = ReduceMax", False),
        ("Sqrt(ve)", "Exp(ve)", False), ("y = Div(d, s)", "y = Div(s, d)", False), ("y = Div(d, s)", "y = Mul(d, s)", False),
        ("y = Div(d, s)", "r = Reciprocal(s) y = Div(d, r)", False), ("y = Div(d, s)", "r = Div(c1, s) y = Mul(d, r)", True),
        ("y = Div(d, s)", "r = Div(two, s) y = Mul(d, r)", False), ("y = Div(d, s)", "r = Div(s, c1) y = Mul(d, r)", False),
    ],
)  # fmt: skip
def test_moments_that_nearly_are_those_of_a_layer_norm(fused, old, new, is_formed):
    text = NUMBERS + TWO_MOMENTS + "y = Div(d, s)"
    assert text.count(old) == 1
    assert ("LayerNormalization" in fused(FuseLayerNorm(), text.replace(old, new))) is is_formed


@pytest.mark.parametrize(
    ("old", "new", "is_formed"),
    [
        ("mean = Div(sum, n)", "mean = Mul(sum, e8)", True), ("mean = Div(sum, n)", "mean = Mul(e8, sum)", True), ("mean = Div(sum, n)", "mean = Div(n, sum)", False),
        ("mean = Div(sum, n)", "mean = Div(sum, e8)", False), ("mean = Div(sum, n)", "mean = Mul(sum, n)", False), ("vv = Div(ss, n)", "vv = Mul(ss, e8)", True),
        ("vv = Div(ss, n)", "vv = Div(n, ss)", False), ("vv = Div(ss, n)", "vv = Mul(ss, n)", False), ("{8}", "{7}", False), ("{8}", "{9}", False),
        ("{8}", "{8.0001}", False), ("Pow(d, two)", "Mul(d, d)", True), ("Pow(d, two)", "Mul(d, x)", False), ("Pow(d, two)", "Pow(x, two)", False),
        ("Pow(d, two)", "Pow(d, c1)", False), ("Sub(x, m)", "Sub(m, x)", False),
    ],
)  # fmt: skip
def test_centred_sums_that_nearly_are_those_of_a_layer_norm(fused, old, new, is_formed):
    text = NUMBERS + CENTRED + "y = Div(d, s)"
    assert text.count(old) == 1
    assert ("LayerNormalization" in fused(FuseLayerNorm(), text.replace(old, new))) is is_formed


@pytest.mark.parametrize("leading", [0, 1, 2])
def test_layer_norm_whose_weights_have_leading_axes(fused, leading):
    dims = ",".join(["1"] * leading + ["8"])
    weights = f"k = Constant<value = float[{dims}] {{1,2,3,4,5,6,7,8}}>() b = Constant<value = float[{dims}] {{8,7,6,5,4,3,2,1}}>()"
    body = weights + TWO_MOMENTS + "r = Reciprocal(s) rk = Mul(r, k) n = Mul(d, rk) y = Add(n, b)"
    assert fused(FuseLayerNorm(), body) == ["LayerNormalization"]


def test_layer_norm_over_another_axis_stays(fused):
    other = TWO_MOMENTS.replace("{-1}", "{1}")
    assert "LayerNormalization" not in fused(FuseLayerNorm(), other + "y = Div(d, s)")


def test_layer_norm_with_misaligned_statistics_stays(fused):
    body = CENTRED.replace(
        "m = Unsqueeze(mean, last)", "lead = Constant<value = int64[1] {0}>() m = Unsqueeze(mean, lead)"
    )
    body = body.replace("{8}", "{4}")
    operators = fused(FuseLayerNorm(), body + "y = Div(d, s)", "float[4,4,4] x", "float[4,4,4] y")
    assert "LayerNormalization" not in operators


def test_a_target_without_layer_norm_gets_none(fused, limited):
    target = limited("LayerNormalization", opset=18)
    assert "LayerNormalization" not in fused(FuseLayerNorm(target), TWO_MOMENTS + "y = Div(d, s)")


def test_a_target_with_layer_norm_in_double_precision_alone_gets_none_in_single(fused, limited):
    target = limited(dtypes=[np.float64])
    assert "LayerNormalization" not in fused(FuseLayerNorm(target), TWO_MOMENTS + "y = Div(d, s)")


@pytest.mark.parametrize(
    ("rest", "signature", "reason"),
    [
        (
            "y = Div(d, s)",
            ("float[B,5,N] x", "float[B,5,N] y"),
            "the size of the normalised axis is not known, and so neither is that of its scale",
        ),
        (
            """axes = Constant<value = int64[2] {0, 1}>() k = ReduceSum(x, axes) r = Reciprocal(s) f = Mul(r, k)
            y = Mul(d, f)""",
            ("float[B,5,8] x", "float[B,5,8] y"),
            "the scale is computed with leading axes",
        ),
        (
            "r = Sqrt(v0) w = Add(r, eps) y = Div(d, w)",
            ("float[B,5,8] x", "float[B,5,8] y"),
            "epsilon, 1e-06, is added behind the square root, and the operator adds it under the root",
        ),
        (
            "r = Sqrt(v0) y = Div(d, r)",
            ("float[B,5,8] x", "float[B,5,8] y"),
            "no epsilon is added under the square root",
        ),
    ],
)
def test_reasons(declined, rest, signature, reason):
    assert declined(FuseLayerNorm(), TWO_MOMENTS + rest, *signature) == [reason]


def test_another_quotient_has_no_reason(declined):
    assert declined(FuseLayerNorm(), TWO_MOMENTS + "y = Div(d, ve)") == []


def test_a_target_without_the_element_type_is_a_reason(declined, limited):
    target = limited(dtypes=[np.float64])
    reasons = declined(FuseLayerNorm(target), TWO_MOMENTS + "y = Div(d, s)")
    assert reasons == ["the target has no LayerNormalization for float32"]


def test_a_formula_with_two_scales_keeps_one_product(fused):
    body = f"{SCALE} {TWO_MOMENTS} r = Reciprocal(s) f = Mul(r, g) n1 = Mul(d, g) y = Mul(n1, f)"
    assert "LayerNormalization" not in fused(FuseLayerNorm(), body)
