"""Bounds of integers, followed through a graph."""

from __future__ import annotations

import numpy as np
import onnx
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


@pytest.mark.parametrize(
    ("number", "fits_byte", "fits_int32"),
    [
        (255, True, True), (256, False, True), (-256, True, True), (-257, False, True), (2**31 - 1, False, True), (2**31, False, False),
        (-(2**31), False, True), (-(2**31) - 1, False, False),
    ],
)  # fmt: skip
def test_the_limits_of_bytes_and_int32_are_those_of_their_numbers(number, fits_byte, fits_int32):
    found = magnitude(f"k = Constant<value = int64[1] {{{number}}}>() y = Identity(k)")
    assert (found.fits_byte, found.fits_int32, found.is_size) == (fits_byte, fits_int32, fits_int32)


@pytest.mark.parametrize(
    ("operation", "limit"),
    [
        ("Identity(s)", 7),
        ("Add(s, s)", 15),
        ("Sub(s, s)", 15),
        ("Mul(s, s)", 64),
        ("Neg(s)", 8),
        ("Abs(s)", 8),
        ("Max(s, s)", 7),
    ],
)
def test_a_bound_is_no_larger_than_numbers_may_be(operation, limit):
    """Of numbers from -8 to 7."""
    assert magnitude(f"{SEVEN} y = {operation}").limit == limit


@pytest.mark.parametrize(("size", "is_known"), [(64, True), (65, False)])
def test_large_constants_are_not_looked_at(size, is_known):
    numbers = ", ".join(["7"] * size)
    assert (magnitude(f"k = Constant<value = int64[{size}] {{{numbers}}}>() y = Identity(k)").limit == 7) == is_known


@pytest.mark.parametrize(("dtype", "limit"), [(9, 1), (2, 255), (3, 127), (4, 65535), (5, 32767), (6, 2**31 - 1)])
def test_a_cast_is_within_its_type(dtype, limit):
    assert magnitude(f"j = Cast<to = {dtype}>(i) y = Cast<to = 7>(j)").limit == limit


@pytest.mark.parametrize(
    ("body", "limit"),
    [
        ("k = Constant<value = int64[0] {}>() y = Identity(k)", 0),
        ("k = Constant<value = float[1] {7}>() y = Cast<to = 7>(k)", (1 << 63) - 1),
        ("k = Constant<value_ints = [7]>() y = Identity(k)", (1 << 64) - 1),
        (SEVEN + "j = Cast<to = 6>(s) y = Cast<to = 7>(j)", 7),
        ("k = Constant<value = int64[1] {127}>() j = Cast<to = 3>(k) y = Cast<to = 7>(j)", 127),
        ("k = Constant<value = int64[1] {128}>() j = Cast<to = 3>(k) y = Cast<to = 7>(j)", 127),
        (SEVEN + "n = Shape(x) y = Pow(n, s)", (1 << 64) - 1),
    ],
)
def test_what_is_known_of_a_number(body, limit):
    assert magnitude(body).limit == limit


@pytest.mark.parametrize(("inputs", "limit"), [("int64[1] i", 7), ("int64[1] i, int64[1] k", (1 << 64) - 1)])
def test_a_constant_that_callers_may_replace_is_not_known(inputs, limit):
    text = f'<ir_version: 10, opset_import: ["" : 23]> g ({inputs}) => (int64[1] y) <int64[1] k = {{7}}> {{ y = Add(i, k) }}'
    value = ir.from_proto(onnx.parser.parse_model(text)).graph[0].inputs[1]
    assert value is not None
    assert Magnitudes().magnitude(value).limit == limit
