"""Rows of operands of which rows of a result are computed: taken before, they give the rows taken after."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from jax2onnx_graph.facts.sizes import size_of
from jax2onnx_graph.facts.sub_axes import SubAxis, operand_sub_axes, result_sub_axes
from onnx.reference import ReferenceEvaluator
from onnx_ir.passes.common import ShapeInferencePass

RNG = np.random.default_rng(0)
ROWS = [2, 0]


def node_of(inputs: str, body: str) -> ir.Node:
    text = f'<ir_version: 10, opset_import: ["" : 23]> g ({inputs}) => (float[A] y) {{ {body} }}'
    model = ir.from_onnx_text(text)
    model.graph.outputs[0].shape = None
    node = ShapeInferencePass()(model).model.graph.outputs[0].producer()
    assert node is not None
    return node


#: Inputs, the node, the axis of the result, and for each operand the axis whose rows count.
NODES = {
    "elementwise": ("float[3,4] x", "y = Exp(x)", 0, [0]),
    "broadcast": ("float[3,4] x, float[4] z", "y = Add(x, z)", 0, [0, None]),
    "broadcast along the rows": ("float[3,4] x, float[1,4] z", "y = Mul(x, z)", 0, [0, None]),
    "softmax along others": ("float[3,4] x", "y = Softmax<axis = 1>(x)", 0, [0]),
    "matrix product": ("float[3,4] x, float[4,5] z", "y = MatMul(x, z)", 0, [0, None]),
    "batch of products": ("float[3,2,4] x, float[3,4,5] z", "y = MatMul(x, z)", 0, [0, 0]),
    "general product": ("float[4,3] x, float[4,5] z, float[3,5] c", "y = Gemm<transA = 1>(x, z, c)", 0, [1, None, 0]),
    "transpose": ("float[4,3] x", "y = Transpose(x)", 0, [1]),
    "einsum": ("float[4,3] x, float[5,4] z", 'y = Einsum<equation = "ij,ki->jk">(x, z)', 0, [1, None]),
    "layer norm": ("float[3,4] x, float[4] z", "y = LayerNormalization(x, z)", 0, [0, None]),
    "concat along others": ("float[3,4] x, float[3,2] z", "y = Concat<axis = 1>(x, z)", 0, [0, 0]),
}


@pytest.mark.parametrize("name", NODES)
def test_rows_of_operands_give_rows_of_the_result(name):
    inputs, body, axis, expected = NODES[name]
    node = node_of(inputs, body)
    found = operand_sub_axes(node, SubAxis(axis))
    assert found is not None
    assert [None if rows is None else rows.axis for rows in found] == expected
    operands = {str(v.name): RNG.standard_normal(v.shape.numpy()).astype(np.float32) for v in node.inputs}
    taken = {
        name: array if rows is None else array.take(ROWS, rows.axis)
        for (name, array), rows in zip(operands.items(), found, strict=True)
    }
    graph = node.graph
    assert isinstance(graph, ir.Graph)
    for value in graph.inputs:
        value.shape = None
    run = ReferenceEvaluator(ir.to_proto(ir.Model(graph, ir_version=10)))
    (of_some,), (of_all,) = run.run(None, taken), run.run(None, operands)
    np.testing.assert_allclose(np.asarray(of_some), np.asarray(of_all).take(ROWS, axis), rtol=1e-5)


DEPENDENT = {
    "softmax along the rows": ("float[3,4] x", "y = Softmax<axis = 0>(x)"),
    "sums along the rows": ("float[3,4] x", "y = CumSum(x, a)"),
    "concat along the rows": ("float[3,4] x", "y = Concat<axis = 0>(x, x)"),
    "norm along the rows": ("float[3,4] x, float[3,4] z", "y = LayerNormalization<axis = 0>(x, z)"),
    "random": ("float[3,4] x", "y = Dropout(x)"),
    "unknown": ("float[3,4] x", "y = Det(x)"),
}


@pytest.mark.parametrize("name", DEPENDENT)
def test_nothing_is_said_of_rows_that_depend_on_each_other(name):
    inputs, body = DEPENDENT[name]
    axis = "a = Constant<value = int64 {0}>() "
    assert operand_sub_axes(node_of(inputs, axis * ("a)" in body) + body), SubAxis(0)) is None


def test_rows_of_a_view_may_be_merged_into_an_axis():
    node = node_of("float[6,4] x", "s = Constant<value = int64[3] {2,3,4}>() y = Reshape(x, s)")
    found = operand_sub_axes(node, SubAxis(1))
    assert found is not None
    rows, _ = found
    assert rows == SubAxis(0, outer=size_of([2]))
    assert not rows.is_whole
    back = result_sub_axes(node, 0, rows)
    assert back == [SubAxis(1)]
