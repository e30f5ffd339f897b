"""The nodes that compute a value, and which of them nothing else needs."""

from __future__ import annotations

import onnx_ir as ir
import pytest
from jax2onnx_fusions.experts._backward_slices import backward_slice, behind_weights, exclusive_nodes
from onnx_ir.passes.common import ShapeInferencePass

INPUTS = "float[2,3] x, float[4,3,3] u, float[3,3] w, bool is_long"


def graph_of(body: str, outputs: str = "float[2,3] y") -> ir.Graph:
    return ir.from_onnx_text(
        f'<ir_version: 10, opset_import: ["" : 21]> g ({INPUTS}) => ({outputs}) {{ {body} }}'
    ).graph


def names(nodes: set[ir.Node]) -> str:
    """The names of the first results of nodes."""
    return " ".join(sorted(str(node.outputs[0].name) for node in nodes))


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("y = Relu(x)", "y"), ("a = Relu(x) b = Neg(x) y = Add(a, b)", "a b y"), ("a = Relu(x) b = Neg(x) y = Abs(a)", "a y"),
        ("a = Relu(x) b = Neg(a) y = Add(a, b)", "a b y"), ("a = Relu(x) y = Clip(a, , x)", "a y"),
    ],
)  # fmt: skip
def test_what_computes_a_value(body, expected):
    assert names(backward_slice(graph_of(body).outputs[0])) == expected


def test_at_most_so_many_nodes_are_looked_at():
    chain = "t0 = Neg(x) " + " ".join(f"t{i + 1} = Neg(t{i})" for i in range(80))
    assert len(backward_slice(graph_of(chain + " y = Neg(t80)").outputs[0])) == 64


def test_what_computes_a_value_of_a_branch_lies_in_the_branch():
    graph = graph_of(
        "a = Relu(x) y = If(is_long)<then_branch = t () => (float[2,3] p) { q = Neg(a) p = Abs(q) }, "
        "else_branch = e () => (float[2,3] r) { r = Identity(a) }>"
    )
    branch = graph[1].attributes["then_branch"].as_graph()
    assert names(backward_slice(branch.outputs[0])) == "p q"


@pytest.mark.parametrize(
    ("body", "outputs", "expected"),
    [
        ("a = Relu(x) b = Neg(a) y = Abs(b)", "float[2,3] y", "a b"),
        ("a = Relu(x) b = Neg(a) y = Abs(b) z = Abs(b)", "float[2,3] y, float[2,3] z", ""),
        ("a = Relu(x) b = Neg(a) y = Abs(b) z = Abs(a)", "float[2,3] y, float[2,3] z", "b"),
        ("a = Relu(x) b = Neg(a) y = Abs(b)", "float[2,3] y, float[2,3] a", "b"),
        ("a = Relu(x) b = Neg(a) y = Add(b, a)", "float[2,3] y", "a b"),
        ("a = Relu(x) k, l = Split<num_outputs = 2>(a) y = Abs(k) z = Abs(l)", "float[1,3] y, float[1,3] z", ""),
    ],
)
def test_nodes_that_nothing_else_reads(body, outputs, expected):
    reader = graph_of(body, outputs).outputs[0].producer()
    assert reader is not None
    assert names(exclusive_nodes(backward_slice(reader.outputs[0]) - {reader}, reader)) == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("a = Relu(x) h = MatMul(a, u) r = Neg(h) y = Abs(r)", "h r y"), ("h = MatMul(u, x) y = Abs(h)", "h y"),
        ("h = MatMul(x, w) y = Abs(h)", ""), ("h = Mul(x, u) y = Abs(h)", ""), ("k = Add(u, u) h = MatMul(x, k) y = Abs(h)", ""),
        ("k = Transpose<perm = [0, 2, 1]>(u) h = MatMul(x, k) y = Abs(h)", "h y"),
        ("h = MatMul(x, u) k = Relu(x) y = Add(h, k) z = Neg(h)", "h y"),
    ],
)  # fmt: skip
def test_products_with_a_weight_of_each_expert_and_what_is_behind(body, expected):
    graph = ShapeInferencePass()(ir.Model(graph_of(body, "float[4,2,3] y"), ir_version=10)).model.graph
    assert names(behind_weights(backward_slice(graph.outputs[0]))) == expected
