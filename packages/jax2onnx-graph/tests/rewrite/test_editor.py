"""The editor's ways of putting nodes into a graph, on graphs given as text."""

from __future__ import annotations

import onnx
import onnx_ir as ir
import pytest
from jax2onnx_graph.errors import Declined
from jax2onnx_graph.facts.operators import OPERATORS
from jax2onnx_graph.rewrite.editor import GraphEditor

TEXT = """<ir_version: 10, opset_import: ["" : 23]>
g (float[N] x, bool p) => (float[N] z, float[N] y) {
  y = Abs(x)
  z = If (p) <then_branch = t () => (float[N] a) { a = Neg(y) }, else_branch = e () => (float[N] b) { b = Exp(y) }>
}"""


def edited() -> GraphEditor:
    return GraphEditor(ir.from_onnx_text(TEXT).graph, opset=23)


def operators(editor: GraphEditor) -> list[str]:
    return [node.op_type for node in editor.graph]


def test_nodes_after_a_value_follow_its_maker_in_the_order_of_writing():
    editor = edited()
    builder = editor.after(editor.graph.outputs[1])
    builder.op("Sqrt", builder.op("Neg", editor.graph.outputs[1]))
    assert operators(editor) == ["Abs", "Neg", "Sqrt", "If"]
    assert [node.op_type for node in builder.nodes] == ["Neg", "Sqrt"]


def test_nodes_after_inputs_come_first_in_the_order_of_writing():
    editor = edited()
    for op_type in ("Neg", "Sqrt"):
        editor.after(editor.graph.inputs[0]).op(op_type, editor.graph.inputs[0])
    assert operators(editor) == ["Neg", "Sqrt", "Abs", "If"]


def test_nodes_carry_the_metadata_of_their_origin():
    editor = edited()
    origin = editor.graph[0]
    origin.metadata_props["line"] = "7"
    value = editor.after(editor.graph.inputs[0], origin).op("Neg", editor.graph.inputs[0])
    node = value.producer()
    assert node is not None
    assert node.metadata_props == {"line": "7"}


def test_rerouting_moves_readers_the_place_among_the_outputs_and_the_name():
    editor = edited()
    old = editor.graph.outputs[1]
    new = editor.reroute(old, lambda value: editor.after(value).op("Neg", value))
    readers = [nested.graph[0].inputs[0] for nested in editor.nested()]
    assert readers == [new, new]
    assert editor.graph.outputs[1] is new
    assert new.name == "y"
    assert operators(editor) == ["Abs", "Neg", "If"]
    assert editor.graph[1].inputs[0] is old


def test_the_names_of_values_are_free_in_the_root_graph_and_its_subgraphs():
    editor = edited()
    assert [editor.value_name(base) for base in ("w", "w", "a", "y")] == ["w", "w_1", "a_1", "y_1"]
    nested = next(iter(editor.nested()))
    assert nested.value_name("w") == "w_2"


def test_the_graphs_of_a_node_share_the_constants_of_the_root():
    editor = edited()
    constants = {nested.ints([1]) for nested in editor.nested_in(editor.graph[1])}
    assert constants == {editor.ints([1])}


def _operators_with_numbers() -> list[tuple[str, str, int]]:
    """Operators of doubles that have an attribute of the type float, the attribute, and how many operands they need."""
    found = []
    for op_type in OPERATORS:
        schema = onnx.defs.get_schema(op_type, 26, "")
        for name, attribute in schema.attributes.items():
            takes_doubles = schema.inputs and "tensor(double)" in schema.inputs[0].types
            is_complete = not any(other.required for other in schema.attributes.values())
            if takes_doubles and is_complete and attribute.type == onnx.defs.OpSchema.AttrType.FLOAT:
                found.append((op_type, name, schema.min_input))
    return found


@pytest.mark.parametrize(("op_type", "name", "operands"), _operators_with_numbers())
def test_a_double_that_an_attribute_cannot_hold_is_declined(op_type, name, operands):
    text = TEXT.replace("float", "double").replace("23", "26")
    editor = GraphEditor(ir.from_onnx_text(text).graph, opset=26)
    builder, x = editor.after(editor.graph.inputs[0]), editor.graph.inputs[0]
    with pytest.raises(Declined, match=rf"the attribute {name} of {op_type} is float32 and cannot hold 0.1 of float64"):
        builder.make_node(op_type, [x] * operands, attributes={name: 0.1})
    assert builder.make_node(op_type, [x] * operands, attributes={name: 0.125}).op_type == op_type


def test_numbers_of_float_are_attributes():
    editor = edited()
    builder = editor.after(editor.graph.inputs[0])
    assert builder.make_node("Elu", [editor.graph.inputs[0]], attributes={"alpha": 0.1}).op_type == "Elu"
