"""Walks over the nodes, values and graphs of a model with a conditional and a function."""

from __future__ import annotations

import onnx_ir as ir
import pytest
from jax2onnx_graph.errors import ConversionError
from jax2onnx_graph.traversal import (
    all_graphs,
    all_nodes,
    all_values,
    check_depth,
    given_inputs,
    needed_by,
    subgraphs,
    walk,
)

TEXT = """<ir_version: 10, opset_import: ["" : 23, "own" : 1]>
g (float[N] x, bool p) => (float[N] z) <float[1] w = {1}> {
  a = own.F(x)
  z = If (p) <then_branch = t () => (float[N] c) { c = Abs(a) }, else_branch = e () => (float[N] d) { d = Add(a, w) }>
}
<opset_import: ["" : 23], domain: "own"> F (x) => (y) { y = Neg(x) }"""


@pytest.fixture
def model() -> ir.Model:
    return ir.from_onnx_text(TEXT)


def test_a_walk_goes_into_subgraphs_behind_their_node(model):
    assert [node.op_type for node in walk(model.graph)] == ["F", "If", "Abs", "Add"]
    assert [graph.name for graph in subgraphs(model.graph[1])] == ["t", "e"]
    assert list(subgraphs(model.graph[0])) == []


def test_all_graphs_nodes_and_values_of_a_model(model):
    assert len(list(all_graphs(model))) == 4
    assert sorted(node.op_type for node in all_nodes(model)) == ["Abs", "Add", "F", "If", "Neg"]
    assert sorted(str(value.name) for value in all_values(model)) == sorted(
        ["x", "p", "w", "a", "z", "c", "d", "x", "y"]
    )


def test_initializers_among_the_inputs_are_not_given(model):
    model.graph.inputs.append(model.graph.initializers["w"])
    assert [value.name for value in given_inputs(model.graph)] == ["x", "p"]


def nested(depth: int) -> ir.Model:
    graph = ir.Graph([], [], nodes=[], name="g", opset_imports={"": 23})
    for _ in range(depth):
        node = ir.node("If", [None], {"then_branch": graph})
        graph = ir.Graph([], [], nodes=[node], name="g", opset_imports={"": 23})
    return ir.Model(graph, ir_version=10)


def test_subgraphs_may_be_nested_as_deep_as_a_file_can_be_read():
    check_depth(nested(31))
    with pytest.raises(
        ConversionError, match=r"nested 32 deep, but a model file can be read to 31 levels only\. Turn nested"
    ):
        check_depth(nested(32))


def test_the_nodes_that_a_node_needs():
    text = """<ir_version: 10, opset_import: ["" : 23]>
    g (float[N] x) => (float[N] y) { a = Exp(x) b = Neg(a) c = Abs(x) d = Add(b, a) y = Clip(d, , c) e = Log(y) }"""
    graph = ir.from_onnx_text(text).graph
    exp, neg, abs_, add, clip, _ = graph
    assert needed_by(exp) == set()
    assert needed_by(add) == {exp, neg}
    assert needed_by(clip) == {exp, neg, abs_, add}


def test_nodes_that_a_subgraph_needs(model: ir.Model) -> None:
    foreign, conditional = model.graph
    assert needed_by(conditional) == {foreign}
