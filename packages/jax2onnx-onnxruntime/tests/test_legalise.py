"""Legalisation for the kernels of ONNX Runtime: graphs before and after, as text."""

from __future__ import annotations

import onnx_ir as ir
import pytest
from jax2onnx_graph.legalise._carriers import find_carrier
from jax2onnx_onnxruntime import LegalisePass
from jax2onnx_onnxruntime._kernels import NEWEST, measured_versions, table
from jax2onnx_testing.pass_fixtures import node_lines

#: A version whose kernels compute maxima of large int64 wrongly.
LOSSY = measured_versions()["1.31"]


def legalised(body: str, opset: int = 23, version: str = NEWEST) -> str:
    """The nodes of the legalised graph, see `node_lines`."""
    return node_lines(LegalisePass(version=version), body, opset=opset)


def test_a_model_that_runs_as_it_is_stays_as_it_is():
    model = ir.from_onnx_text('<ir_version: 10, opset_import: ["" : 23]> g (float[N] x) => (float[N] y) { y = Exp(x) }')
    assert not LegalisePass()(model).modified


def test_integers_are_summed_where_the_float64_accumulator_of_the_kernel_is_exact():
    body = "g (int32[N,M] x) => (int32[N] z) <int64[1] a = {1}> { z = ReduceSum<keepdims=0>(x, a) }"
    assert [line.split(" = ")[1].split(" ")[0] for line in legalised(body).split("\n")] == ["Cast", "ReduceSum", "Cast"]


def test_counts_are_summed_by_the_kernel_as_they_are():
    body = "g (bool[N] x) => (int32 z) { y = Cast<to=6>(x) z = ReduceSum<keepdims=0>(y) }"
    assert legalised(body).split("\n") == ["y = Cast <to=6> (x)", "z = ReduceSum <keepdims=0> (y)"]


def test_large_int64_maxima_avoid_the_kernel():
    body = "g (int64[N] x, int64[N] y) => (int64[N] z) { z = Max(x, y) }"
    assert [line.split(" = ")[1].split(" ")[0] for line in legalised(body, version=LOSSY).split("\n")] == [
        "Less",
        "Where",
    ]


def test_maxima_of_sizes_and_widened_indices_use_the_kernel():
    body = """g (int32[N] i, float[K] x) => (int64[N] z) <int64 o = {0}> {
      n = Shape(x) w = Cast<to=7>(i) a = Max(w, o) b = Sub(n, o) z = Min(a, b) }"""
    assert legalised(body).count("Max") == 1
    assert "Less" not in legalised(body)


def test_sums_that_a_scatter_makes_are_not_taken_for_small():
    body = """g (int32[2] x) => (int64[1] y) <int64[2,1] i = {0, 0}> {
      a = Cast<to=7>(x) b = ScatterND<reduction="add">(a, i, a) y = ReduceMax(b) }"""
    assert "ReduceMax" not in legalised(body, version=LOSSY)
    assert "ReduceMax" in legalised(body.replace('<reduction="add">', ""), version=LOSSY)


@pytest.mark.parametrize(
    ("size", "is_small"),
    [
        ("Sub(n, one)", True),
        ("Mul(n, four)", True),
        ("Div(n, four)", True),
        ("Add(n, large)", False),
        ("Mul(n, large)", False),
        ("Mul(n, n)", False),
        ("Add(n, half)", False),
        ("Neg(large)", False),
    ],
)
def test_arithmetic_on_sizes_is_as_large_as_its_numbers(size, is_small):
    constants = (
        "int64[1] one = {1}, int64[1] four = {4}, int64[1] half = {2147483647}, int64[1] large = {1099511627776}"
    )
    body = f"g (float[N] x) => (int64[1] y) <{constants}> {{ n = Shape(x) s = {size} y = Max(s, one) }}"
    assert ("Max" in legalised(body, version=LOSSY)) is is_small


def test_a_cast_to_a_narrower_type_bounds_a_number_again():
    body = """g (int64[N] x) => (int64[N] y) <int64[1] one = {1}> {
      a = Cast<to=6>(x) b = Cast<to=7>(a) y = Max(b, one) }"""
    assert "Max" in legalised(body)


@pytest.mark.parametrize("element", [2**40, 2**61])
def test_sums_of_large_constants_do_not_go_through_floats(element):
    body = f"""g (float[N] x) => (int64 y) <int64[1] large = {{{element}}}> {{
      n = Shape(x) s = Add(n, large) y = ReduceSum<keepdims=0>(s) }}"""
    assert "ReduceSum (s)" not in legalised(body)


def test_positions_of_the_largest_elements_are_small():
    body = "g (float[3,8] x) => (int64[1,1] y) <int64[1] k = {2}> { v, i = TopK(x, k) y = ReduceMax(i) }"
    assert "ReduceMax" in legalised(body)


def test_a_type_that_cannot_be_cast_has_no_carrier():
    assert find_carrier(table(), "Add", "T", ir.DataType.BFLOAT16, 23) is not None
    assert find_carrier(table(), "Add", "T", ir.DataType.FLOAT4E2M1, 23) is None


def test_a_rewrite_of_the_first_node_reads_casts_of_inputs_that_come_before_it():
    """`legalised` checks that the nodes are in an order in which they can run."""
    body = "g (uint64[B,7] x) => (uint64[B] y) <int64[1] a = {1}> { y = ReduceMax<keepdims = 0>(x, a) }"
    assert "ArgMax <axis=1, keepdims=1> (x_i64_flipped)" in legalised(body)
