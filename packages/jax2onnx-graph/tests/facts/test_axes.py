"""The axes that nodes name, counted from the first."""

from __future__ import annotations

import onnx_ir as ir
import pytest
from jax2onnx_graph.facts.axes import axis_of, named_axes, rank_of, reduced_axes


def node(body: str) -> ir.Node:
    constants = "int64[2] s = {0, 1}, int64[2] e = {2, 2}, int64[2] a = {-1, 0}, int64 c = {-2}, int64[0] n = {}"
    text = f'<ir_version: 10, opset_import: ["" : 23]> g (float[2,3,4] x, int64[2] i) => (y) <{constants}> {{ {body} }}'
    made = ir.from_onnx_text(text).graph.outputs[0].producer()
    assert made is not None
    return made


@pytest.mark.parametrize(
    ("body", "axis"), [("y = Softmax(x)", 2), ("y = Softmax<axis = -2>(x)", 1), ("y = ArgMax(x)", 0)]
)
def test_the_axis_of_an_attribute_or_its_default(body, axis):
    assert axis_of(node(body), 3) == axis


@pytest.mark.parametrize(
    ("body", "axes"),
    [
        ("y = ReduceSum(x, a)", [2, 0]),
        ("y = ReduceSum(x, n)", [0, 1, 2]),
        ("y = ReduceMax<noop_with_empty_axes = 1>(x, n)", []),
        ("y = CumSum(x, c)", [1]),
        ("y = Slice(x, s, e, a)", [2, 0]),
        ("y = Slice(x, s, e)", [0, 1]),
        ("y = Slice(x, i, e)", [0, 1]),
        ("y = ReduceSum(x, i)", None),
        ("y = ReduceSum(x)", None),
        ("y = Exp(x)", None),
    ],
)
def test_the_axes_of_an_operand(body, axes):
    assert named_axes(node(body), 3) == axes


@pytest.mark.parametrize(
    ("body", "axes"),
    [
        ("y = ReduceSum(x, a)", [2, 0]),
        ("y = ReduceSum(x)", [0, 1, 2]),
        ("y = ReduceSum<noop_with_empty_axes = 1>(x)", None),
        ("y = ReduceMax<noop_with_empty_axes = 1>(x, n)", None),
        ("y = ReduceSum(x, i)", None),
        ("y = ArgMax<axis = -1>(x)", [2]),
        ("y = CumSum(x, c)", None),
    ],
)
def test_the_axes_that_are_reduced(body, axes):
    assert reduced_axes(node(body)) == axes


def test_a_rank_that_is_not_known():
    assert rank_of(None) is rank_of(ir.Value()) is None
    assert rank_of(node("y = Exp(x)").inputs[0]) == 3
