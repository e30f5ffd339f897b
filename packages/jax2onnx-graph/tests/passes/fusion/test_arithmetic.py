"""Neutral elements, and the remainder of integers."""

from __future__ import annotations

import pytest
from jax2onnx_graph.passes.fusion.fuse_mod import FuseMod
from jax2onnx_graph.passes.structural.fold_neutral import FoldNeutral


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("a = Mul(x, one) y = Neg(a)", ["Neg"]),
        ("a = Div(x, one) y = Neg(a)", ["Neg"]),
        ("a = Add(x, zero) y = Neg(a)", ["Add", "Neg"]),
        ("a = Div(one, x) y = Neg(a)", ["Div", "Neg"]),
        ("a = Mul(x, ones) y = Neg(a)", ["Mul", "Neg"]),  # it broadcasts
        ("i = Cast<to = 6>(x) j = Add(nought, i) k = Sub(j, nought) y = Cast<to = 1>(k)", ["Cast", "Cast"]),
    ],
)
def test_neutral_elements(recover, body, expected):
    constants = """one = Constant<value = float {1}>() zero = Constant<value = float {0}>()
        nought = Constant<value = int32 {0}>() ones = Constant<value = float[2,1,1,1] {1, 1}>()"""
    result = "float[2,B,5,8] y" if "ones)" in body else "float[B,5,8] y"
    assert recover(FoldNeutral(), constants + body, y=result) == expected


REMAINDER = """n = Constant<value = int32 {5}>() nought = Constant<value = int32 {0}>() false = Constant<value = bool {0}>()
    r = Mod<fmod = 1>(x, n) l = Less(r, nought) e = Equal(r, nought) d = Not(e) m = Add(r, n)"""
INTEGERS = ("int32[B,8] x", "int32[B,8] y")


@pytest.mark.parametrize(
    "condition",
    ["c = And(l, d)", "c = And(d, l)", "o = Xor(l, false) c = And(o, d)", "o = Xor(false, l) c = And(d, o)"],
)
def test_a_remainder_whose_sign_is_corrected_is_mod(recover, condition):
    assert recover(FuseMod(), f"{REMAINDER} {condition} y = Where(c, m, r)", *INTEGERS) == ["Mod"]


@pytest.mark.parametrize(
    "change",
    [("c = And(l, d)", "c = Or(l, d)"), ("n = Constant<value = int32 {5}>", "n = Constant<value = int32 {-5}>")],
)
def test_something_like_a_remainder_stays(recover, change):
    body = f"{REMAINDER} c = And(l, d) y = Where(c, m, r)"
    assert change[0] in body
    assert "Where" in recover(FuseMod(), body.replace(*change), *INTEGERS)
