"""The walk of the base classes of passes over the graphs of a model, and the reasons that they keep."""

from __future__ import annotations

import onnx_ir as ir
import pytest
from jax2onnx_graph.rewrite.editor import GraphEditor
from jax2onnx_graph.rewrite.pass_base import Declined, GraphPass, NodePass, NotFormed

TEXT = """<ir_version: 10, opset_import: ["" : 23, "own" : 1]>
g (float[N] x, bool p) => (float[N] z) {
  a = Abs(x)
  b = own.Abs(a)
  z = If (p) <then_branch = t () => (float[N] c) { c = Abs(b) }, else_branch = e () => (float[N] d) { d = Neg(b) }>
}
<opset_import: ["" : 23], domain: "own"> Abs (x) => (y) { y = Abs(x) }"""


class Visited(GraphPass):
    """1. Notes the graphs that it is called for."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str | None] = []

    def rewrite_graph(self, editor: GraphEditor) -> None:
        self.names.append(editor.graph.name)


class OnlyRoots(Visited):
    visits_subgraphs = False


class AbsToRelu(NodePass[ir.Value]):
    """1. `Abs(x)` becomes `Relu(x)`, but for an x that is an input of the graph."""

    operators = frozenset({"Abs"})

    def match(self, node: ir.Node, editor: GraphEditor) -> ir.Value | Declined | None:
        (x,) = node.inputs
        assert x is not None
        return Declined("the operand is an input", node) if x.is_graph_input() else x

    def rewrite(self, node: ir.Node, match: ir.Value, editor: GraphEditor) -> None:
        editor.put(node, "Relu", [match])


class Everything(AbsToRelu):
    operators = None  # type: ignore[assignment]

    def match(self, node: ir.Node, editor: GraphEditor) -> ir.Value | Declined | None:
        return Declined(node.op_type, node)


class MakesGelu(AbsToRelu):
    produces = frozenset({"Gelu"})


def operators(model: ir.Model) -> list[str]:
    return [node.op_type for node in ir.traversal.RecursiveGraphIterator(model.graph)]


def test_all_graphs_are_visited_a_graph_before_those_in_it():
    visited = Visited()
    result = visited(ir.from_onnx_text(TEXT))
    assert visited.names == ["g", "t", "e", ""]  # functions have no name as graphs
    assert not result.modified


def test_a_pass_may_walk_subgraphs_by_itself():
    visited = OnlyRoots()
    visited(ir.from_onnx_text(TEXT))
    assert visited.names[0] == "g"
    assert len(visited.names) == 2


def test_matched_nodes_of_the_standard_domain_are_rewritten_in_subgraphs_too():
    model = ir.from_onnx_text(TEXT)
    assert AbsToRelu()(model).modified
    assert operators(model) == ["Abs", "Abs", "If", "Relu", "Neg"]


def test_reasons_name_the_line_or_the_node_once_for_each_run():
    model = ir.from_onnx_text(TEXT)
    first = model.graph[0]
    first.name, first.metadata_props["source"] = "Abs", "model.py:3 (f)"
    one = AbsToRelu()
    for _ in range(2):
        one(model)
    assert NotFormed("AbsToRelu", "model.py:3 (f)", "the operand is an input") in one.not_formed()
    assert str(one.not_formed()[0]) == "AbsToRelu was not formed at model.py:3 (f): the operand is an input"


def test_a_pass_of_all_operators_asks_about_each_standard_node():
    one = Everything()
    one(ir.from_onnx_text(TEXT))
    assert [declined.reason for declined in one.declined] == ["Abs", "If", "Abs", "Neg", "Abs"]


@pytest.mark.parametrize(("opset", "modified"), [(18, False), (20, True)])
def test_a_pass_whose_operators_the_target_lacks_does_nothing(opset, modified):
    model = ir.from_onnx_text(TEXT.replace("23", str(opset)))
    assert MakesGelu()(model).modified is modified
