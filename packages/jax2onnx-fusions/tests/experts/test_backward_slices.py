"""The nodes that compute a value, those that are read for it alone, and those behind weights of experts."""

from __future__ import annotations

from collections.abc import Iterable

import onnx
import onnx_ir as ir
import pytest
from jax2onnx_fusions.experts._backward_slices import backward_slice, behind_weights, exclusive_nodes

INPUTS = "float[2,T,4] x, float[2,4,3] w, float[4,3] v, bool b"
IF = """a = Neg(x)
    y = If(b) <then_branch = t () => (float p) { q = Neg(a) p = Neg(q) }, else_branch = e () => (float r) { r = Neg(x) }>"""


def graph_of(body: str, outputs: str = "float y") -> ir.Graph:
    text = f'<ir_version: 10, opset_import: ["" : 21]> m ({INPUTS}) => ({outputs}) {{ {body} }}'
    return ir.from_proto(onnx.shape_inference.infer_shapes(onnx.parser.parse_model(text))).graph


def names(nodes: Iterable[ir.Node]) -> str:
    """The first results, sorted."""
    return " ".join(sorted(str(node.outputs[0].name) for node in nodes))


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("a = Neg(x) c = Neg(a) y = Add(a, c) z = Neg(y)", "a c y"), ("a = Neg(x) y = Clip(a, , ) z = Neg(a)", "a y"),
        ("y = Add(x, x)", "y"), (IF, "y"),
    ],
)  # fmt: skip
def test_the_nodes_that_compute_a_value(body, expected):
    assert names(backward_slice(graph_of(body).outputs[0])) == expected


def test_the_nodes_of_a_branch_end_at_what_it_reads_from_outside():
    graph = graph_of(
        "a = Neg(x) y = If(b) <then_branch = t () => (float p) { q = Neg(a) p = Neg(q) }, else_branch = e () => (float r) { r = Neg(x) }>"
    )
    branch = graph.outputs[0].producer().attributes["then_branch"].as_graph()
    assert names(backward_slice(branch.outputs[0])) == "p q"


@pytest.mark.parametrize("count", [63, 64, 65])
def test_a_slice_has_a_number_of_nodes(count):
    chain = " ".join(f"t{i} = Neg(t{i - 1})" for i in range(1, count))
    assert len(backward_slice(graph_of(f"t0 = Neg(x) {chain} y = Identity(t{count - 1})").outputs[0])) == min(
        count + 1, 64
    )


@pytest.mark.parametrize(
    ("body", "outputs", "expected"),
    [
        ("a = Neg(x) c = Neg(a) y = Neg(c)", "float y", "a c"), ("a = Neg(x) c = Neg(a) z = Neg(c) y = Neg(c)", "float y", ""),
        ("a = Neg(x) c = Neg(a) z = Neg(a) y = Neg(c)", "float y", "c"), ("a = Neg(x) c = Neg(a) y = Neg(c)", "float y, float a", "c"),
        ("a = Neg(x) c = Neg(a) y = Add(a, c)", "float y", "a c"),
    ],
)  # fmt: skip
def test_nodes_that_are_read_for_one_reader_alone(body, outputs, expected):
    reader = graph_of(body, outputs).outputs[0].producer()
    assert names(exclusive_nodes(backward_slice(reader.inputs[-1]), reader)) == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("a = Neg(x) h = MatMul(a, w) r = Relu(h) y = Neg(r)", "h r y"), ("a = Neg(x) h = MatMul(a, v) y = Neg(h)", ""),
        ("n = Neg(x) a = Neg(w) h = MatMul(n, a) y = Neg(h)", ""), ("a = Neg(x) h = Add(a, x) y = Neg(h)", ""),
        ("h = MatMul(x, w) a = Neg(h) c = Neg(h) y = Add(a, c)", "a c h y"),
    ],
)  # fmt: skip
def test_nodes_behind_weights_of_experts(body, expected):
    assert names(behind_weights(backward_slice(graph_of(body).outputs[0]))) == expected


def test_nodes_outside_of_the_given_ones_are_not_behind_weights():
    graph = graph_of("a = Neg(x) h = MatMul(a, w) r = Relu(h) y = Neg(r)")
    assert names(behind_weights({node for node in graph if node.op_type != "Relu"})) == "h"
