"""Bounds of integers, followed through a graph."""

from __future__ import annotations

import onnx_ir as ir
import pytest
from jax2onnx_graph.legalise.magnitudes import Magnitudes
from onnx_ir.passes.common import ShapeInferencePass


def magnitude(body: str):
    text = f'<ir_version: 10, opset_import: ["" : 23]> g (float[N] x, int64[3] i, bool c) => (y) {{ {body} }}'
    graph = ShapeInferencePass()(ir.from_onnx_text(text)).model.graph
    found = Magnitudes()
    for node in graph:
        found.note(node)
    return found.magnitude(graph.outputs[0])


SEVEN = "s = Constant<value = int64[1] {7}>() "


@pytest.mark.parametrize(
    ("body", "fits_byte", "fits_int32"),
    [
        (SEVEN + "y = Identity(s)", True, True),
        (SEVEN + "y = Mul(s, s)", True, True),
        ("y = Shape(x)", False, True),
        ("n = Shape(x) y = Add(n, n)", False, True),
        ("n = Shape(x) y = Mul(n, n)", False, False),
        ("y = Identity(i)", False, False),
        (SEVEN + "y = Add(s, i)", False, False),
        ("n = Shape(x) k = Constant<value = int64 {20}>() y = Mul(n, k)", False, False),
        ("j = Cast<to = 3>(i) y = Cast<to = 7>(j)", True, True),
    ],
)
def test_what_a_value_fits(body, fits_byte, fits_int32):
    found = magnitude(body)
    assert (found.fits_byte, found.fits_int32) == (fits_byte, fits_int32)


def test_arithmetic_on_sizes_stays_far_from_the_limits_of_int64():
    assert magnitude("n = Shape(x) y = Mul(n, n)").is_size
    assert not magnitude('n = Shape(x) y = BitShift<direction = "LEFT">(n, n)').is_size
    assert not magnitude("y = Neg(i)").is_size


def test_several_values_have_the_largest_bound():
    small, large = magnitude(SEVEN + "y = Identity(s)"), magnitude("y = Identity(i)")
    assert large.limit > small.limit == 7
    assert Magnitudes().common_magnitude([]).limit == 0
