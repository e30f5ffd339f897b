"""`graph_text`: what of a model is written, and how."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from jax2onnx_testing.graph_text import graph_text


def model(body: str) -> ir.Model:
    """A model given as ONNX text, with inferred types."""
    proto = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 23, "my" : 1]>\n{body}')
    return ir.from_proto(onnx.shape_inference.infer_shapes(proto))


def graph_lines(body: str) -> list[str]:
    """The lines of the graph without its signature and indentation."""
    section = graph_text(model(body)).split("\n\n")[1]
    return [line.removeprefix("    ") for line in section.splitlines()[1:]]


def test_the_header_the_graph_and_the_weights() -> None:
    weights = "<float[4,3] w = {1,2,3,4,5,6,7,8,9,10,11,12}>"
    text = graph_text(model(f"g (float[B,4] x) => (float[B,3] z) {weights} {{ y = MatMul(x, w) z = Relu(y) }}"))
    assert text == (
        """ir_version: 10
opset: ai.onnx 23, my 1

graph(x: f32[B, 4]) -> (z: f32[B, 3]):
    y = MatMul(x, w)  # f32[B, 3]
    z = Relu(y)  # f32[B, 3]

weights:
    w: f32[4, 3]
"""
    )


def test_a_small_initializer_is_written_by_value() -> None:
    body = "g (float[B,4] x) => (float[B,2,2] y) <int64[3] s = {0, 2, -1}> { y = Reshape(x, s) }"
    assert graph_lines(body) == ["y = Reshape(x, i64[3]{0, 2, -1})  # f32[B, 2, 2]"]


def test_a_small_constant_node_is_written_by_value_where_it_is_used() -> None:
    body = "g (float[B] x) => (float[B] y) { c = Constant<value = float {0.5}>() y = Add(x, c) }"
    assert graph_lines(body) == ["y = Add(x, f32{0.5})  # f32[B]"]


def test_a_constant_that_is_an_output_keeps_its_name() -> None:
    body = "g () => (float[2] y) { y = Constant<value = float[2] {1, 2}>() }"
    assert graph_lines(body) == ["y = Constant() {value=f32[2]{1, 2}}  # f32[2]"]


def test_a_large_constant_node_is_written_without_values() -> None:
    body = "g () => (float y) { c = Constant<value = float[9] {1,2,3,4,5,6,7,8,9}>() y = ReduceSum<keepdims = 0>(c) }"
    assert graph_lines(body) == ["c = Constant() {value=f32[9]}  # f32[9]", "y = ReduceSum(c) {keepdims=0}  # f32[]"]


@pytest.mark.parametrize(
    ("dtype", "value", "text"),
    [
        (ir.DataType.FLOAT, 1 / 3, "f32{0.333333}"),
        (ir.DataType.FLOAT, -np.inf, "f32{-inf}"),
        (ir.DataType.DOUBLE, 1e-5, "f64{1e-05}"),
        (ir.DataType.BFLOAT16, 0.5, "bf16{0.5}"),
        (ir.DataType.BOOL, True, "bool{true}"),
        (ir.DataType.UINT32, 4294967295, "u32{4294967295}"),
        (ir.DataType.INT64, [[1], [2]], "i64[2, 1]{1, 2}"),
        (ir.DataType.FLOAT, np.zeros((0, 3)), "f32[0, 3]{}"),
    ],
)
def test_numbers(dtype: ir.DataType, value: object, text: str) -> None:
    constant = ir.Value(name="c", const_value=ir.tensor(np.asarray(value, dtype.numpy())))
    node = ir.node("Identity", [constant])
    graph = ir.Graph([], node.outputs, nodes=[node], initializers=[constant], opset_imports={"": 23}, name="g")
    assert f"Identity({text})" in graph_text(ir.Model(graph, ir_version=10))


def test_attributes_are_sorted_and_of_every_kind() -> None:
    body = """g (float[B] x) => (float[B] y) {
        y = my.F <s = "a", floats = [0.1, 2.0], f = 0.1, ints = [1, 2], strings = ["b", "c"], t = int64[2] {3, 4}> (x) }"""
    attributes = "f=0.1, floats=[0.1, 2], ints=[1, 2], s='a', strings=['b', 'c'], t=i64[2]{3, 4}"
    assert graph_lines(body) == [f"y = my.F(x) {{{attributes}}}  # f32[B]"]


def test_absent_operands_and_results() -> None:
    body = "g (float[N] x, float top) => (float[N] y) { y = Clip(x, , top) }"
    assert graph_lines(body) == ["y = Clip(x, _, top)  # f32[N]"]
    body = "g (float[2,N] x) => (float[1,N] b) { a, b = Split<num_outputs = 2>(x, ) }"
    assert graph_lines(body) == ["a, b = Split(x) {num_outputs=2}  # f32[1, N], f32[1, N]"]


def test_subgraphs_are_indented_and_their_weights_listed() -> None:
    text = graph_text(
        model(
            "g (bool p, float[9] x) => (float[9] y) { y = If (p) <"
            "then_branch = t () => (float[9] a) <float[9] w = {1,2,3,4,5,6,7,8,9}> { a = Add(x, w) },"
            "else_branch = e () => (float[9] b) { b = Neg(x) }> }"
        )
    )
    assert text.split("\n\n", 1)[1] == (
        """graph(p: bool[], x: f32[9]) -> (y: f32[9]):
    y = If(p)  # f32[9]
        else_branch() -> (b: f32[9]):
            b = Neg(x)  # f32[9]
        then_branch() -> (a: f32[9]):
            a = Add(x, w)  # f32[9]

weights:
    w: f32[9]
"""
    )


def test_functions_are_sections() -> None:
    text = graph_text(
        model(
            """g (float[B] x) => (float[B] y) { y = my.f <alpha = 0.5> (x) }
            <domain: "my", opset_import: ["" : 23]> f <alpha> (a) => (b) { c = LeakyRelu <alpha: float = @alpha> (a) b = Neg(c) }"""
        )
    )
    assert text.split("\n\n")[-1] == (
        """function my.f(a: ?[?]) -> (b: ?[?]) {alpha}:
    opset: ai.onnx 23
    c = LeakyRelu(a) {alpha=@alpha}  # ?[?]
    b = Neg(c)  # ?[?]
"""
    )


def test_metadata_is_written_by_key_and_a_short_value() -> None:
    made = model("g (float[B] x) => (float[B] y) { y = Neg(x) }")
    made.metadata_props.update({"long": "x" * 61, "kind": "test"})
    assert graph_text(made).split("\n\n")[0].splitlines()[2:] == ["metadata: kind = test", "metadata: long"]


def test_the_order_of_weights_does_not_show() -> None:
    weights = ["<float[9] a = {1,2,3,4,5,6,7,8,9}, float[9] b = {1,2,3,4,5,6,7,8,9}>"]
    weights.append("<float[9] b = {1,2,3,4,5,6,7,8,9}, float[9] a = {1,2,3,4,5,6,7,8,9}>")
    first, second = (graph_text(model(f"g () => (float[9] y) {w} {{ y = Add(a, b) }}")) for w in weights)
    assert first == second


def test_the_model_is_not_changed() -> None:
    made = model("g (float[B] x) => (float[B] y) <float c = {2}> { y = Mul(x, c) }")
    before = ir.to_proto(made).SerializeToString()
    graph_text(made)
    assert ir.to_proto(made).SerializeToString() == before
