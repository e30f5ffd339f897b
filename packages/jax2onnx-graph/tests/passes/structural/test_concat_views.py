from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from jax2onnx_graph.passes.structural.concat_views import ConcatViews
from onnx.reference import ReferenceEvaluator

HEAD = '<ir_version: 10, opset_import: ["" : 20]>\n'
GRAPH = """g (float[{a}] x, float[{b}] z) => (float[{result}] y) {{
    s = Constant<value = int64[{rank}] {{{first}}}>() t = Constant<value = int64[{rank}] {{{second}}}>()
    p = Reshape(x, s) q = Reshape(z, t) y = Concat<axis = {axis}>(p, q)
}}"""


def _model(a, first, b, second, axis, result):
    rank = len(first.split(","))
    text = GRAPH.format(a=a, b=b, first=first, second=second, axis=axis, result=result, rank=rank)
    return onnx.shape_inference.infer_shapes(onnx.parser.parse_model(HEAD + text), data_prop=True)


def _changed(model, sizes):
    """The operators of the nodes that are read after the pass, without constants, and the model; the results are compared."""
    changed = ir.from_proto(model)
    ConcatViews()(changed)
    made = ir.to_proto(changed)
    onnx.checker.check_model(made)
    feeds = {name: np.random.default_rng(0).random(shape, np.float32) for name, shape in zip("xz", sizes, strict=True)}
    (right,), (left,) = (ReferenceEvaluator(m).run(None, feeds) for m in (model, made))
    np.testing.assert_array_equal(left, right)
    return [node.op_type for node in changed.graph if node.op_type != "Constant" and node.outputs[0].uses()], changed


@pytest.mark.parametrize(
    ("model", "sizes"),
    [
        (_model("1,5,6", "1,5,2,3", "1,4,6", "1,4,2,3", 1, "1,9,2,3"), [(1, 5, 6), (1, 4, 6)]),
        (_model("2,3,5", "6,5", "2,3,4", "6,4", 1, "6,9"), [(2, 3, 5), (2, 3, 4)]),
        (_model("0,6", "0,2,3", "4,6", "4,2,3", 0, "4,2,3"), [(0, 6), (4, 6)]),
        (_model("2,4", "2,2,2", "2,6", "2,3,2", 1, "2,5,2"), [(2, 4), (2, 6)]),
    ],
    ids=["heads", "flattened in front", "nothing appended to", "parts of the axis"],
)
def test_views_are_concatenated_first(model, sizes):
    _, changed = _changed(model, sizes)
    result = changed.graph.outputs[0].producer()
    assert result.op_type in ("Reshape", "Squeeze", "Unsqueeze")
    assert [value.name for value in result.inputs[0].producer().inputs] == ["x", "z"]


@pytest.mark.parametrize(
    ("model", "sizes"),
    [
        (_model("1,5,6", "1,1,5,6", "1,5,6", "1,1,5,6", 1, "1,2,5,6"), [(1, 5, 6), (1, 5, 6)]),
        (_model("5,6", "5,2,3", "4,3,2", "4,2,3", 0, "9,2,3"), [(5, 6), (4, 3, 2)]),
        (_model("5,6", "3,2,5", "6,5", "3,2,5", 0, "6,2,5"), [(5, 6), (6, 5)]),
    ],
    ids=["a stack", "of other shapes", "of another axis"],
)
def test_other_views_stay(model, sizes):
    operators, _ = _changed(model, sizes)
    assert operators == ["Reshape", "Reshape"]


def test_symbolic_sizes():
    text = """g (float[1,S,6] x, float[1,T,6] z) => (float[1,U,2,3] y) {
        s = Constant<value = int64[4] {1,-1,2,3}>() p = Reshape(x, s) q = Reshape(z, s) y = Concat<axis = 1>(p, q) }"""
    model = ir.from_onnx_text(HEAD + text)
    for name, size in (("p", "S"), ("q", "T")):
        value = next(v for node in model.graph for v in node.outputs if v.name == name)
        value.shape, value.type = ir.Shape([1, size, 2, 3]), ir.TensorType(ir.DataType.FLOAT)
    _, changed = _changed(ir.to_proto(model), [(1, 5, 6), (1, 0, 6)])
    assert changed.graph.outputs[0].producer().op_type == "Reshape"


IS_MOVED = {
    "all axes in front are kept": ("float[1,5,6] x, float[1,4,6] z", "float[1,9,2,3] y", "1", "{1,-1,2,3}", True),
    "all axes behind are kept": ("float[2,3,5] x, float[2,3,4] z", "float[6,9] y", "1", "{6,-1}", True),
    "of another number of axes": ("float[2,6] x, float[2,3,2] z", "float[4,2,3] y", "0", "{2,2,3}", False),
    "of other axes": ("float[2,3,5] x, float[3,2,4] z", "float[6,9] y", "1", "{6,-1}", False),
    "the axis is the first part": ("float[2,12] x, float[2,12] z", "float[2,6,4] y", "1", "{2,3,4}", True),
    "the axis is the last part": ("float[2,12] x, float[2,12] z", "float[2,3,8] y", "2", "{2,3,4}", False),
    "the axis is joined": ("float[4,2] x, float[4,2] z", "float[2,4,2] y", "1", "{2,2,2}", False),
    "an axis of its size between others": ("float[2,3,4] x, float[2,3,4] z", "float[4,6,2] y", "1", "{4,3,2}", False),
}


@pytest.mark.parametrize("name", IS_MOVED)
def test_views_that_keep_the_axis(rewrite, name):
    inputs, output, axis, shape, is_moved = IS_MOVED[name]
    rank = shape.count(",") + 1
    text = f"g ({inputs}) => ({output}) <int64[{rank}] s = {shape}> {{ p = Reshape(x, s) q = Reshape(z, s) y = Concat<axis = {axis}>(p, q) }}"
    (found,) = rewrite(ConcatViews(), HEAD + text)
    assert found.startswith("Concat") is not is_moved


@pytest.mark.parametrize(
    "body", ["p = Relu(x) q = Neg(z) y = Concat<axis = 0>(p, q)", "p = Reshape(x, s) y = Concat<axis = 0>(p, z)", "p = Reshape(x, s) q = Reshape(z, s) y = Concat<axis = 0>(p, q, z)", "p = Reshape(x, s) y = Concat<axis = 0>(p, p)"]
)  # fmt: skip
def test_what_is_no_view_stays(rewrite, body):
    text = f"g (float[4,3] x, float[4,3] z) => (float[K,3] y) <int64[2] s = {{4,3}}> {{ {body} }}"
    (found,) = rewrite(ConcatViews(), HEAD + text)
    assert found.startswith("Concat") is ("(p, p)" not in body)


def test_a_view_alone_stays(rewrite):
    text = "g (float[4,6] x) => (float[4,2,3] y) <int64[3] s = {4,2,3}> { p = Reshape(x, s) y = Concat<axis = 0>(p) }"
    assert rewrite(ConcatViews(), HEAD + text) == ["Concat{0}(Reshape(x, [4, 2, 3]))"]


STACK = """g (float[2,{size},4] x, float[2,{size},4] z, bool b) => ({outputs}) <int64[1] one = {{1}}, int64[3] t = {{2, 6, 4}}> {{
    u = Unsqueeze(x, one) v = Unsqueeze(z, one) s = Concat<axis = 1>(u, v) {readers} }}"""
READERS = {
    "a Reshape": ("float[2,6,4] y", "y = Reshape(s, t)", True),
    "another operator": ("float[2,2,3,4] y", "y = Relu(s)", False),
    "two": ("float[2,6,4] y, float[2,2,3,4] r", "y = Reshape(s, t) r = Relu(s)", False),
    "an output, too": ("float[2,6,4] y, float[2,2,3,4] s", "y = Reshape(s, t)", False),
    "one in a branch": (
        "float[2,6,4] y",
        "y = If(b) <then_branch = f () => (float[2,6,4] p) { p = Reshape(s, t) }, else_branch = h () => (float[2,6,4] q) { q = Reshape(s, t) }>",
        False,
    ),
}


@pytest.mark.parametrize("name", READERS)
def test_stacks_are_concatenated_where_a_view_reads_them(rewrite, name):
    outputs, readers, is_concatenated = READERS[name]
    found = rewrite(ConcatViews(), HEAD + STACK.format(size=3, outputs=outputs, readers=readers))
    assert any("Concat{1}(x, z)" in one for one in found if not one.startswith("If")) is is_concatenated


def test_the_results_of_stacks_are_equal():
    model = onnx.parser.parse_model(HEAD + STACK.format(size=3, outputs="float[2,6,4] y", readers="y = Reshape(s, t)"))
    del model.graph.input[2]
    _changed(onnx.shape_inference.infer_shapes(model), [(2, 3, 4), (2, 3, 4)])


def test_stacks_along_axes_of_symbolic_size_stay(rewrite):
    text = STACK.format(size="M", outputs="float[2,K,4] y", readers="y = Reshape(s, t)").replace("2, 6, 4", "2, -1, 4")
    assert "Unsqueeze" in rewrite(ConcatViews(), HEAD + text)[0]
