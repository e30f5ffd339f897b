"""The index of nodes by operators: passes see the nodes that a walk over the graph would show them."""

from __future__ import annotations

import onnx_ir as ir
import pytest
from jax2onnx_graph.rewrite._node_index import NodeIndex
from jax2onnx_graph.rewrite.editor import GraphEditor

TEXT = """<ir_version: 10, opset_import: ["" : 23]>
g (float[N] x, bool p) => (float[N] z) {
  a = Abs(x)
  b = Neg(a)
  c = Abs(b)
  d = If (p) <then_branch = t () => (float[N] u) { u = Abs(c) }, else_branch = e () => (float[N] v) { v = Neg(c) }>
  z = Neg(d)
}"""


def editor_of(model: ir.Model, *, indexed: bool) -> GraphEditor:
    return GraphEditor(model.graph, opset=23, index=NodeIndex(model) if indexed else None)


@pytest.mark.parametrize("indexed", [False, True])
def test_nodes_of_some_operators_come_in_the_order_of_the_graph(indexed):
    editor = editor_of(ir.from_onnx_text(TEXT), indexed=indexed)
    assert [node.outputs[0].name for node in editor.nodes_of({"Neg", "Abs"})] == ["a", "b", "c", "z"]
    assert [[node.op_type for node in inner.nodes_of({"Neg", "Abs"})] for inner in editor.nested()] == [
        ["Abs"],
        ["Neg"],
    ]


@pytest.mark.parametrize("indexed", [False, True])
def test_nodes_that_are_put_behind_the_current_one_follow_and_discarded_ones_do_not(indexed):
    editor = editor_of(ir.from_onnx_text(TEXT), indexed=indexed)
    seen = []
    for node in editor.nodes_of({"Abs"}):
        seen.append(node.outputs[0].name)
        if node.outputs[0].name == "a":
            editor.after(node.outputs[0]).op.Abs(node.inputs[0]).name = "new"
            editor.before(node).op.Abs(node.inputs[0]).name = "before"
            last = next(n for n in editor.graph if n.outputs[0].name == "c")
            editor.replace(last, last.inputs[0])  # type: ignore[arg-type]
    assert seen == ["a", "new"]


def test_a_change_in_a_subgraph_ends_the_index_of_its_root():
    editor = editor_of(ir.from_onnx_text(TEXT), indexed=True)
    inner = next(editor.nested())
    (node,) = inner.nodes_of({"Abs"})
    inner.put(node, "Relu", [node.inputs[0]])
    inner.finish()
    assert [node.op_type for node in next(editor.nested()).nodes_of({"Relu", "Abs"})] == ["Relu"]


@pytest.mark.parametrize(("operators", "found"), [({"Neg"}, [True, False, True]), ({"Abs"}, [True, True, False])])
def test_graphs_without_some_operators_need_no_look(operators, found):
    editor = editor_of(ir.from_onnx_text(TEXT), indexed=True)
    assert [one.may_have(operators) for one in (editor, *editor.nested())] == found
    assert not editor.may_have({"Relu"})
    editor.modified = True
    assert editor.may_have({"Relu"})
