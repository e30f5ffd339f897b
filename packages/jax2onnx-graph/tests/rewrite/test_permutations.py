"""The arithmetic of permutations, and the operators that compute the same on permuted tensors, run both ways."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from jax2onnx_graph.rewrite.editor import GraphEditor
from jax2onnx_graph.rewrite.permutations import (
    compose,
    inverse,
    moves_only_ones,
    permutable_inputs,
    permuted,
    remaining_permutation,
    rewrite_axes,
)
from jax2onnx_graph.targets import standard_target
from onnx.reference import ReferenceEvaluator

PERM = (0, 3, 1, 2)
X = np.random.default_rng(0).standard_normal((2, 3, 4, 5)).astype(np.float32)


def model(body: str) -> ir.Model:
    text = f'<ir_version: 10, opset_import: ["" : 23]> g (float[2,3,4,5] x) => (float[A,B,C,D] y) {{ {body} }}'
    return ir.from_onnx_text(text)


def run(of: ir.Model, x: np.ndarray) -> np.ndarray:
    of.graph.inputs[0].shape = of.graph.outputs[0].shape = None
    (computed,) = ReferenceEvaluator(ir.to_proto(of)).run(None, {"x": x})
    return np.asarray(computed)


def last_node(of: ir.Model) -> ir.Node:
    node = of.graph.outputs[0].producer()
    assert node is not None
    return node


def test_a_permutation_and_its_inverse_undo_each_other():
    assert compose(PERM, inverse(PERM)) == compose(inverse(PERM), PERM) == (0, 1, 2, 3)
    np.testing.assert_array_equal(X.transpose(PERM).transpose(inverse(PERM)), X)


def test_two_transposes_are_that_by_the_composed_permutation():
    np.testing.assert_array_equal(X.transpose(PERM).transpose((3, 2, 1, 0)), X.transpose(compose(PERM, (3, 2, 1, 0))))


def test_dimensions_and_elements_that_stay_in_order():
    assert permuted((2, 3, 4, 5), PERM) == X.transpose(PERM).shape
    assert moves_only_ones((2, 1, 4, 5), (0, 2, 1, 3))
    assert not moves_only_ones((2, 3, 4, 5), (0, 2, 1, 3))


KEPT = {
    "elementwise": "y = Exp(x)",
    "along an axis": "y = Softmax<axis = 1>(x)",
    "reductions": "a = Constant<value = int64[2] {1, -1}>() y = ReduceSum<keepdims = 1>(x, a)",
    "slices": "s = Constant<value = int64[2] {1, 0}>() e = Constant<value = int64[2] {3, 4}>() "
              "a = Constant<value = int64[2] {1, 3}>() y = Slice(x, s, e, a)",
    "slices of the first axes": "s = Constant<value = int64[2] {0, 1}>() e = Constant<value = int64[2] {2, 3}>() y = Slice(x, s, e)",
    "pads": "p = Constant<value = int64[8] {0,1,2,3,0,0,1,0}>() y = Pad(x, p)",
    "broadcasts": "n = Constant<value = int64[4] {2,3,4,5}>() y = Expand(x, n)",
    "tiles": "n = Constant<value = int64[4] {1,2,1,3}>() y = Tile(x, n)",
    "splits": "y, z = Split<axis = 2, num_outputs = 2>(x)",
}  # fmt: skip


@pytest.mark.parametrize("name", KEPT)
def test_a_permutable_operator_computes_the_same_on_a_permuted_operand(name):
    plain, kept = model(KEPT[name]), model(KEPT[name])
    node = last_node(kept)
    for value in (*node.outputs, node.inputs[0]):
        value.shape = ir.Shape([2, 3, 4, 5])  # only the rank counts
    for constant in node.inputs[1:]:
        constant.shape = ir.Shape(constant.producer().attributes["value"].as_tensor().numpy().shape)
    assert permutable_inputs(node, PERM, standard_target) == range(1)
    rewrite_axes(GraphEditor(kept.graph, opset=23), node, PERM)
    expected = run(plain, X)
    np.testing.assert_allclose(run(kept, X.transpose(inverse(PERM))).transpose(PERM), expected, rtol=1e-6)


NOT_KEPT = {
    "unknown operators": "y = LpPool<kernel_shape = [1, 1]>(x)",
    "results of another rank": "y = ReduceSum<keepdims = 0>(x)",
    "broadcasts to a shape of fewer axes": "n = Constant<value = int64[2] {4,5}>() y = Expand(x, n)",
    "normalisations": "s = Constant<value = float[1] {1}>() y = LayerNormalization(x, s)",
}


@pytest.mark.parametrize("name", NOT_KEPT)
def test_others_are_not_permutable(name):
    node = last_node(model(NOT_KEPT[name]))
    assert permutable_inputs(node, PERM, standard_target) is None


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("a = Constant<value = int64[1] {1}>() y = ReduceSum<keepdims = 0>(x, a)", (0, 1, 2)),
        ("a = Constant<value = int64[1] {0}>() y = ReduceSum<keepdims = 0>(x, a)", (2, 0, 1)),
        ("y = ArgMax<axis = 3, keepdims = 0>(x)", (0, 2, 1)),
        ("y = ReduceSum<keepdims = 0>(x)", ()),
        ("y = ReduceSum(x)", None),
        ("y = Exp(x)", None),
    ],
)
def test_the_permutation_that_is_left_when_axes_are_removed(body, expected):
    node = last_node(model(body))
    found = remaining_permutation(node, PERM)
    assert found == expected
    if found:
        gone = {
            "ReduceSum": lambda: tuple(node.inputs[1].producer().attributes["value"].as_tensor().numpy()),
            "ArgMax": lambda: (3,),
        }
        (axis,) = gone[node.op_type]()
        kept = X.transpose(inverse(PERM)).sum(PERM[axis])
        np.testing.assert_allclose(kept.transpose(found), X.sum(axis), rtol=1e-5)
