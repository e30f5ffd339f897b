"""Bounds of integers, followed through a graph."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jax2onnx_graph.legalise.magnitudes import Magnitudes
from onnx.reference import ReferenceEvaluator
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


LARGE = (
    "i64 = Constant<value = int64[3] {127, -128, 100}>() u = Constant<value = int64[2] {2147483647, -2147483648}>() "
)


@pytest.mark.parametrize(
    "body",
    [
        SEVEN + LARGE + "y = Sub(s, i)",
        SEVEN + "n = Shape(x) y = Mul(n, i)",
        "n = Shape(x) y = Where(c, n, i)",
        "n = Shape(x) y = Pow(n, n)",
        'n = Shape(x) y = BitShift<direction = "LEFT">(n, n)',
        "n = Shape(x) y = BitwiseNot(i)",
        "n = Shape(x) y = Concat<axis = 0>(n, i)",
        "n = Shape(x) d = Div(i, n) y = Mul(d, n)",
        "n = Shape(x) y = Mod(i, n)",
        "n = Shape(x) y = Max(n, i)",
        "f = Cast<to = 1>(i) y = Cast<to = 7>(f)",
        "y = ReduceSum(i)",
        "y = CumSum(i, i)",
    ],
)
def test_what_is_computed_from_any_integers_is_not_small(body):
    found = magnitude(body)
    assert not found.fits_byte
    assert not found.fits_int32
    assert not found.is_size


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["Add", "Sub", "Mul", "Neg", "Abs", "Identity", "Max", "Min", "Where"]),
            st.integers(0, 9),
            st.integers(0, 9),
        ),
        max_size=6,
    )
)
def test_no_number_is_larger_than_its_bound(chain):
    """Bytes at both of their limits, through random arithmetic."""
    values, lines = (
        ["a", "b"],
        ["a = Constant<value = int64[4] {127, -128, 0, 1}>() b = Constant<value = int64[4] {-128, -128, 127, -1}>()"],
    )
    for number, (op_type, x, y) in enumerate(chain):
        first, second = values[-1 - x % len(values)], values[-1 - y % len(values)]
        operands = {"Where": f"c, {first}, {second}"}.get(
            op_type, first if op_type in ("Neg", "Abs", "Identity") else f"{first}, {second}"
        )
        lines.append(f"t{number} = {op_type}({operands})")
        values.append(f"t{number}")
    body = " ".join([*lines, f"y = Identity({values[-1]})"])
    model = ir.to_proto(
        ir.from_onnx_text(f'<ir_version: 10, opset_import: ["" : 23]> g (bool c) => (int64[4] y) {{ {body} }}')
    )
    for condition in (True, False):
        (result,) = ReferenceEvaluator(model).run(None, {"c": np.array(condition)})
        limit = magnitude(body).limit
        assert -limit - 1 <= result.min()
        assert result.max() <= limit


def test_several_values_have_the_largest_bound():
    small, large = magnitude(SEVEN + "y = Identity(s)"), magnitude("y = Identity(i)")
    assert large.limit > small.limit == 7
    assert Magnitudes().common_magnitude([]).limit == 0
