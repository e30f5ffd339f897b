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


READERS = {
    "a Reshape": ("float[2,6,4] y", "y = Reshape(s, t)", True),
    "a Reshape that copies axes in front": ("float[2,6,4] y", "y = Reshape(s, zeros)", True),
    "a Reshape whose zeros are sizes": ("float[2,6,4] y", "y = Reshape<allowzero = 1>(s, t)", True),
    "another operator": ("float[2,2,3,4] y", "y = Relu(s)", False),
    "an operator before it": ("float[2,6,4] y", "n = Neg(s) y = Reshape(n, t)", False),
    "a Transpose": ("float[4,3,2,2] y", "y = Transpose(s)", False),
    "two": ("float[2,6,4] y, float[2,2,3,4] r", "y = Reshape(s, t) r = Relu(s)", False),
    "an output, too": ("float[2,6,4] y, float[2,2,3,4] s", "y = Reshape(s, t)", False),
    "a Reshape to a shape that is not known": ("float[2,6,4] y", "k = Cast<to = 7>(c) y = Reshape(s, k)", False),
}


@pytest.mark.parametrize("name", READERS)
def test_readers_of_stacks(rewrite, name):
    outputs, body, is_merged = READERS[name]
    numbers = "int64[1] one = {1}, int64[3] t = {2, 6, 4}, int64[3] zeros = {0, 6, 4}, int32[3] c = {2, 6, 4}"
    stack = "a = Unsqueeze(x, one) b = Unsqueeze(z, one) s = Concat<axis = 1>(a, b)"
    found = rewrite(
        MergeStacks(), f"{HEAD}g (float[2,3,4] x, float[2,3,4] z) => ({outputs}) <{numbers}> {{ {stack} {body} }}"
    )
    assert any("Unsqueeze" in one for one in found) is not is_merged


@pytest.mark.parametrize("end", ["y0 = Reshape(s, t)", "r = Reshape(s, t) y0 = Neg(r)"])
def test_stacks_that_a_branch_reads_stay(rewrite, end):
    text = f"""g (float[2,3,4] x, float[2,3,4] z, bool b) => (float[2,6,4] y) <int64[1] one = {{1}}, int64[3] t = {{2, 6, 4}}> {{
        u = Unsqueeze(x, one) v = Unsqueeze(z, one) s = Concat<axis = 1>(u, v)
        y = If(b) <then_branch = f () => (float[2,6,4] y0) {{ {end} }}, else_branch = h () => (float[2,6,4] y1) {{ y1 = Concat<axis = 1>(x, z) }}> }}"""
    (found,) = rewrite(MergeStacks(), HEAD + text)
    assert found.startswith("If")


@pytest.mark.parametrize(("size", "is_merged"), [(3, True), ("M", False)])
def test_stacks_along_axes_of_known_size(rewrite, size, is_merged):
    nodes = "u = Unsqueeze(x, one) v = Unsqueeze(z, one) s = Concat<axis = 1>(u, v) y = Reshape(s, t)"
    text = f"g (float[2,{size},2] x, float[2,{size},2] z) => (float[2,K] y) <int64[1] one = {{1}}, int64[2] t = {{2, -1}}> {{ {nodes} }}"
    (found,) = rewrite(MergeStacks(), HEAD + text)
    assert ("Unsqueeze" in found) is not is_merged


def test_zeros_of_an_empty_stack_are_sizes(rewrite):
    text = """g (float[2,0,4] x, float[2,0,4] z) => (float[0,3] y) <int64[1] one = {1}, int64[2] t = {0, 3}> {
        a = Unsqueeze(x, one) b = Unsqueeze(z, one) s = Concat<axis = 1>(a, b) y = Reshape<allowzero = 1>(s, t) }"""
    assert rewrite(MergeStacks(), HEAD + text) == ["Reshape{1}(Concat{1}(x, z), [0, 3])"]
