"""Neutral elements."""

from __future__ import annotations

import pytest
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
def test_neutral_elements(fused, body, expected):
    constants = """one = Constant<value = float {1}>() zero = Constant<value = float {0}>()
        nought = Constant<value = int32 {0}>() ones = Constant<value = float[2,1,1,1] {1, 1}>()"""
    result = "float[2,B,5,8] y" if "ones)" in body else "float[B,5,8] y"
    assert fused(FoldNeutral(), constants + body, y=result) == expected
