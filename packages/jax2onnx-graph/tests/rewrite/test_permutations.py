"""The arithmetic of permutations, and the operators that compute the same on permuted tensors, run both ways."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from jax2onnx_graph.forms import Form
from jax2onnx_graph.rewrite.editor import GraphEditor
from jax2onnx_graph.rewrite.permutations import (
    inverse,
    moves_only_ones,
    permutable_inputs,
    permuted,
    remaining_permutation,
    rewrite_axes,
)
from jax2onnx_graph.targets import Target, standard_target
from onnx.reference import ReferenceEvaluator

PERM = (0, 3, 1, 2)
X = np.random.default_rng(0).standard_normal((2, 3, 4, 5)).astype(np.float32)


def model(body: str) -> ir.Model:
    """The graph of `body`, in which only the ranks of x and y are known, and what constants are."""
    text = f"""<ir_version: 10, opset_import: ["" : 23, "own" : 1]>
        g (float[2,3,4,5] x, int64[1] axes, int64[4] counts, int64[K] places) => (float[A,B,C,D] y) {{ {body} }}"""
    found = ir.from_onnx_text(text)
    for node in found.graph:
        if node.op_type == "Constant":
            node.outputs[0].shape = ir.Shape(node.attributes["value"].as_tensor().shape.numpy())
    return found


def run(of: ir.Model, x: np.ndarray) -> np.ndarray:
    of.graph.inputs[0].shape = of.graph.outputs[0].shape = None
    del of.graph.inputs[1:]
    (computed,) = ReferenceEvaluator(ir.to_proto(of)).run(None, {"x": x})
    return np.asarray(computed)


def last_node(of: ir.Model) -> ir.Node:
    node = of.graph.outputs[0].producer()
    assert node is not None
    return node


def test_a_permutation_and_its_inverse_undo_each_other():
    assert permuted(PERM, inverse(PERM)) == permuted(inverse(PERM), PERM) == (0, 1, 2, 3)
    np.testing.assert_array_equal(X.transpose(PERM).transpose(inverse(PERM)), X)


def test_two_transposes_are_that_by_the_composed_permutation():
    np.testing.assert_array_equal(X.transpose(PERM).transpose((3, 2, 1, 0)), X.transpose(permuted(PERM, (3, 2, 1, 0))))


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
    "pads of named axes": "p = Constant<value = int64[8] {0,1,2,3,0,0,1,0}>() i = Constant<value = int64[4] {3,1,-4,2}>() y = Pad(x, p, , i)",
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
    assert permutable_inputs(node, PERM, standard_target) == range(1)
    rewrite_axes(GraphEditor(kept.graph, opset=23), node, PERM)
    expected = run(plain, X)
    np.testing.assert_allclose(run(kept, X.transpose(inverse(PERM))).transpose(PERM), expected, rtol=1e-6)


NOT_KEPT = {
    "unknown operators": "y = LpPool<kernel_shape = [1, 1]>(x)",
    "operators of another domain": "y = own.Exp(x)",
    "results of another rank": "y = ReduceSum<keepdims = 0>(x)",
    "extrema without their axis": "y = ArgMax<axis = 1, keepdims = 0>(x)",
    "broadcasts to a shape of fewer axes": "m = Constant<value = int64[2] {4,5}>() y = Expand(x, m)",
    "broadcasts of fewer axes": "s = Constant<value = float[5] {1,2,3,4,5}>() m = Constant<value = int64[4] {2,3,4,5}>() y = Expand(s, m)",
    "axes that are attributes": "y = ReduceSum<axes = [1]>(x)",
    "axes that are computed": "y = ReduceSum(x, axes)",
    "repetitions that are computed": "y = Tile(x, counts)",
    "slices of unknown many axes": "y = Slice(x, places, places)",
    "normalisations": "s = Constant<value = float[1] {1}>() y = LayerNormalization(x, s)",
}  # fmt: skip


@pytest.mark.parametrize("name", NOT_KEPT)
def test_others_are_not_permutable(name):
    node = last_node(model(NOT_KEPT[name]))
    assert permutable_inputs(node, PERM, standard_target) is None


def test_permutations_of_other_many_axes_than_a_result_has_are_none_of_it():
    node = last_node(model("y = Add(x, x)"))
    assert permutable_inputs(node, PERM, standard_target) == range(2)
    assert permutable_inputs(node, (1, 0), standard_target) is None
    assert permutable_inputs(node, (0, 2, 1, 3, 4), standard_target) is None


class PrefersTheLastAxis(Target):
    """A target that computes Softmax faster along the last axis than along any other."""

    def prefers(self, *forms: Form) -> Form:
        return Form.SOFTMAX_LAST_AXIS if Form.SOFTMAX_LAST_AXIS in forms else forms[0]


@pytest.mark.parametrize(
    ("body", "perm", "inputs"),
    [
        ("y = Softmax<axis = 3>(x)", PERM, None),
        ("y = Softmax<axis = -1>(x)", PERM, None),
        ("y = Softmax<axis = 3>(x)", (1, 0, 2, 3), range(1)),
        ("y = Softmax<axis = 2>(x)", PERM, range(1)),
        ("y = Softmax<axis = 0>(x)", PERM, range(1)),
        ("y = Concat<axis = 3>(x, x)", PERM, range(2)),
    ],
)
def test_what_is_fastest_along_the_last_axis_stays_there(body, perm, inputs):
    node = last_node(model(body))
    assert permutable_inputs(node, perm, PrefersTheLastAxis()) == inputs
    assert permutable_inputs(node, perm, standard_target) is not None


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("a = Constant<value = int64[1] {1}>() y = ReduceSum<keepdims = 0>(x, a)", (0, 1, 2)),
        ("a = Constant<value = int64[1] {0}>() y = ReduceSum<keepdims = 0>(x, a)", (2, 0, 1)),
        ("y = ArgMax<axis = 3, keepdims = 0>(x)", (0, 2, 1)),
        ("y = ReduceSum<keepdims = 0>(x)", ()),
        ("a = Constant<value = int64[0] {}>() y = ReduceSum<keepdims = 0>(x, a)", ()),
        ("y = ReduceSum(x)", None),
        ("y = ReduceSum<keepdims = 0, noop_with_empty_axes = 1>(x)", None),
        ("y = ReduceSum<keepdims = 0>(x, axes)", None),
        ("y = ReduceSum<axes = [1], keepdims = 0>(x)", None),
        ("y = Squeeze(x)", None),
        ("y = own.ReduceSum<keepdims = 0>(x)", None),
        ("y = ArgMin<axis = 0, keepdims = 0>(x)", (2, 0, 1)),
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
            "ArgMin": lambda: (0,),
        }
        (axis,) = gone[node.op_type]()
        kept = X.transpose(inverse(PERM)).sum(PERM[axis])
        np.testing.assert_allclose(kept.transpose(found), X.sum(axis), rtol=1e-5)
