from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from jax2onnx_graph.passes.structural.merge_stacks import MergeStacks
from onnx.reference import ReferenceEvaluator

HEAD = '<ir_version: 10, opset_import: ["" : 20]>\n'
STACK = """g (float[N,3,4] x, float[N,3,4] z) => ({result} y) {{
    k = Constant<value = int64[1] {{{axis}}}>() a = Unsqueeze(x, k) b = Unsqueeze(z, k) n = Neg(b)
    s = Concat<axis = {axis}>(a, {second}) t = Constant<value = int64[{rank}] {{{target}}}>() y = Reshape(s, t)
}}"""


def _merged(axis, target, result, second="b"):
    """The operators that are left; the results are compared."""
    rank = len(target.split(","))
    text = STACK.format(axis=axis, target=target, result=result, second=second, rank=rank)
    model = onnx.shape_inference.infer_shapes(onnx.parser.parse_model(HEAD + text))
    changed = ir.from_proto(model)
    MergeStacks()(changed)
    made = ir.to_proto(changed)
    onnx.checker.check_model(made)
    feeds = {"x": np.random.default_rng(0).random((2, 3, 4), np.float32), "z": np.zeros((2, 3, 4), np.float32)}
    (right,), (left,) = (ReferenceEvaluator(m).run(None, feeds) for m in (model, made))
    np.testing.assert_array_equal(left, right)
    return [node.op_type for node in changed.graph if node.op_type != "Constant"]


@pytest.mark.parametrize(("axis", "target", "result"), [(2, "0, 3, 8", "float[N,3,8]"), (1, "0, 6, 4", "float[N,6,4]")])
def test_flattened_stacks_are_concatenated(axis, target, result):
    assert _merged(axis, target, result)[-1] == "Concat"


def test_axes_of_size_1_stay_an_unsqueeze():
    assert _merged(2, "0, 3, 1, 8", "float[N,3,1,8]")[-2:] == ["Concat", "Unsqueeze"]


def test_another_shape_stays_a_reshape():
    assert _merged(2, "0, 24", "float[N,24]")[-2:] == ["Concat", "Reshape"]


@pytest.mark.parametrize(
    ("axis", "target", "result", "second"),
    [
        (3, "0, 3, 8", "float[N,3,8]", "b"),
        (2, "0, 0, 0, 4", "float[N,3,2,4]", "b"),
        (2, "0, 3, 8", "float[N,3,8]", "n"),
    ],
    ids=["along the last axis", "kept axes", "no stack"],
)
def test_other_stacks_stay(axis, target, result, second):
    assert _merged(axis, target, result, second)[-2:] == ["Concat", "Reshape"]
