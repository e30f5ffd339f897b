"""The editor's ways of putting nodes into a graph, on graphs given as text."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from jax2onnx_graph.build.origins import HeldResult, add_origin, origins_of
from jax2onnx_graph.errors import Declined, RuleError
from jax2onnx_graph.facts.operators import OPERATORS
from jax2onnx_graph.facts.values import dims_of
from jax2onnx_graph.rewrite.editor import GraphEditor
from onnx.reference import ReferenceEvaluator

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


@pytest.mark.parametrize(
    ("small", "large", "expected"),
    [
        ("4", "2,4", [2, 1]),
        ("1,4", "2,4", [2, 1]),
        ("1,1", "2,3", [2, 3]),
        ("4", "1,4", [1, 1]),  # the axis alone
        ("4", "N,4", [1, 1]),
        ("1,4", "N,4", None),  # a number for a label is not known
        ("4", "4", None),
        ("N,4", "N,4", None),
        ("1", "1", None),
        ("2,4", "4", None),
        ("?", "2,4", None),
    ],
)
def test_an_elementwise_operator_has_the_shape_of_what_it_replaces(small, large, expected):
    editor = GraphEditor(ir.from_onnx_text(TEXT).graph, opset=23)
    x, node = editor.graph.inputs[0], editor.graph[0]
    x.shape, node.outputs[0].shape = (
        None if dims == "?" else ir.Shape([int(d) if d.isdigit() else d for d in dims.split(",")]) for dims in (small, large)
    )  # fmt: skip
    made = editor.put(node, "Exp", [x])
    assert made.outputs[0].shape == node.outputs[0].shape
    operand = made.inputs[0]
    assert operand is not None
    if expected is None:
        assert operand is x
    else:
        expand = operand.producer()
        assert expand is not None
        assert (expand.op_type, expand.inputs[0]) == ("Expand", x)
        numbers = expand.inputs[1]
        assert numbers is not None
        assert numbers.const_value is not None
        assert numbers.const_value.numpy().tolist() == expected


@pytest.mark.parametrize(
    ("small", "other", "large", "found"),
    [
        ("1,4", "N,4", "N,4", ("N,4", [2, 4])),
        ("4", "3,N,1", "3,N,4", ("3,N,4", [3, 2, 4])),
        ("1,1", "N,M", "N,M", ("N,M", [2, 5])),
        ("1,4", "M,4", "N,4", None),  # no operand tells the number
    ],
)
def test_an_elementwise_operator_gets_symbolic_sizes_from_operands(small, other, large, found):
    model = ir.from_onnx_text(
        f"""<ir_version: 10, opset_import: ["" : 23]> g (float[{small}] x, float[{other}] y) => (float[{large}] z) {{
        e = Exp(x) z = Mul(e, y) }}"""
    )
    editor = GraphEditor(model.graph, opset=23)
    x, y = editor.graph.inputs
    made = editor.put(editor.graph[1], "Neg", [x])
    editor.finish()
    if found is None:
        assert made.inputs[0] is x
        return
    assert [str(dim) for dim in dims_of(made.inputs[0]) or ()] == found[0].split(",")
    onnx.checker.check_model(ir.to_proto(model), full_check=True)
    sizes = {"N": 2, "M": 5}
    arrays = {
        str(value.name): np.ones(
            [dim if isinstance(dim, int) else sizes[str(dim)] for dim in dims_of(value) or ()], np.float32
        )
        for value in (x, y)
    }
    (result,) = ReferenceEvaluator(ir.to_proto(model)).run(None, arrays)
    assert list(result.shape) == found[1]


def test_an_operator_of_several_operands_is_as_large_as_all_of_them_together():
    editor = edited()
    node, x = editor.graph[0], editor.graph.inputs[0]
    other = editor.before(node).op.Unsqueeze(x, editor.ints([1]))
    x.shape, other.shape, node.outputs[0].shape = ir.Shape([4]), ir.Shape([3, 1]), ir.Shape([3, 4])
    assert editor.put(node, "Add", [x, other]).inputs[0] is x


def test_what_a_target_is_asked_about_values_without_a_type_is_denied(limited):
    editor = GraphEditor(ir.from_onnx_text(TEXT).graph, opset=23, target=limited("Exp", lost=[("Max", "nan")]))
    x, untyped = editor.graph.inputs[0], ir.Value(name="u")
    assert [editor.supports("Neg", value) for value in (x, untyped, None)] == [True, False, False]
    assert [editor.guarantees("Min", value, "nan") for value in (x, untyped, None)] == [True, False, False]
    assert not editor.supports("Exp", x)
    assert not editor.guarantees("Max", x, "nan")


def test_nodes_that_are_moved_behind_another_stay_behind_what_goes_to_the_front():
    editor = edited()
    first, last = editor.graph
    builder = editor.before(last)
    value = builder.op.Neg(editor.graph.inputs[0])
    made = value.producer()
    assert made is not None
    editor.modified = False
    editor.move_after(made, [first])
    assert (operators(editor), editor.modified) == (["Neg", "Abs", "If"], True)
    editor.after(editor.graph.inputs[0]).op("Sqrt", editor.graph.inputs[0])
    assert operators(editor) == ["Sqrt", "Neg", "Abs", "If"]


def test_discarded_nodes_are_gone_at_the_end_and_not_met_before():
    editor = edited()
    node = editor.graph[0]
    editor.discard(node)
    assert node.inputs == (None,)
    assert [each.op_type for each in editor.nodes()] == ["If"]
    assert operators(editor) == ["Abs", "If"]
    assert editor.finish()
    assert operators(editor) == ["If"]
    assert not edited().finish()


# -- where values come from ---------------------------------------------------------------------------


def chain() -> GraphEditor:
    """`y = Neg(Abs(x))`, whose values hold the results "a" and "y"."""
    text = '<ir_version: 10, opset_import: ["" : 23]> g (float[N] x) => (float[N] y) { a = Abs(x) y = Neg(a) }'
    editor = GraphEditor(ir.from_onnx_text(text).graph, opset=23)
    for node in editor.graph:
        node.outputs[0].type = editor.graph.inputs[0].type
        add_origin(node.outputs[0], node.outputs[0].name)
    return editor


def results_of(value: ir.Value) -> list[object]:
    return [held.result for held in origins_of(value)]


def test_a_value_in_the_place_of_a_node_holds_what_that_held():
    editor = chain()
    new = editor.before(editor.graph[0]).op.Relu(editor.graph.inputs[0])
    editor.replace(editor.graph[1], new)
    assert results_of(new) == ["a"]
    node = editor.put(editor.graph[2], "Exp", [new])
    assert results_of(node.outputs[0]) == ["y"]


def test_a_value_that_replaces_an_output_takes_its_name_and_what_it_holds():
    editor = chain()
    a, y = (node.outputs[0] for node in editor.graph)
    editor.replace_value(y, a)
    assert (editor.graph.outputs[0], a.name, results_of(a)) == (a, "y", ["a", "y"])


def test_a_rerouted_value_hands_over_what_it_holds():
    editor = chain()
    a = editor.graph[0].outputs[0]
    new = editor.reroute(a, lambda value: editor.after(value).op.Relu(value))
    assert (results_of(new), results_of(a), new.name) == (["a"], [], "a")


def test_a_copy_stands_in_for_a_value_whose_contents_change():
    editor = chain()
    a = editor.graph[0].outputs[0]
    copy = editor.after(a).op.Transpose(a)
    editor.stand_in(a, copy)
    editor.modified = False
    editor.set_contents([a])
    assert (results_of(copy), results_of(a), editor.modified) == (["a"], [], True)


def test_a_value_whose_axes_change_holds_its_results_in_another_layout():
    editor = chain()
    a, y = (node.outputs[0] for node in editor.graph)
    editor.permute_contents([a], (2, 0, 1))
    assert origins_of(a) == (HeldResult("a", (2, 0, 1)),)
    editor.stand_in(a, y, (0, 2, 1))
    assert origins_of(y) == (HeldResult("y"), HeldResult("a", (1, 0, 2)))
    x = np.arange(24).reshape(2, 3, 4)
    assert (x.transpose(0, 2, 1).transpose(2, 0, 1) == x.transpose(1, 0, 2)).all()


# -- symbolic dimensions -------------------------------------------------------------------------------

LABELLED = """<ir_version: 10, opset_import: ["" : 23]>
g (float[N,M,4] x) => (float[N,M,4] y) { y = Abs(x) }"""


def labelled_editor() -> tuple[GraphEditor, ir.Value]:
    editor = GraphEditor(ir.from_onnx_text(LABELLED).graph, opset=23)
    return editor, editor.graph.inputs[0]


@pytest.mark.parametrize(
    ("write", "dims"),
    [
        (lambda b, x: b.op.Exp(x), "[N,M,4]"),
        (lambda b, x: b.transpose(x, (2, 0, 1)), "[4,N,M]"),
        (lambda b, x: b.unsqueeze(x, (1,)), "[N,1,M,4]"),
        (lambda b, x: b.op.ReduceSum(x, b.ints([1]), keepdims=0), "[N,4]"),
        (lambda b, x: b.op.Softmax(x), "[N,M,4]"),
        (lambda b, x: b.op.Concat(x, x, axis=0), "?"),  # labels are not computed with
    ],
)
def test_the_results_of_an_insertion_point_are_labelled(write, dims):
    editor, x = labelled_editor()
    result = write(editor.after(x), x)
    assert ("?" if result.shape is None else str(result.shape).replace(" ", "")) == dims


def test_a_pass_cannot_compute_a_symbolic_shape():
    editor, x = labelled_editor()
    with pytest.raises(RuleError, match=r"A pass cannot compute the shape .*: labels have no values\."):
        editor.after(x).shape([1, ir.SymbolicDim("N")])  # type: ignore[list-item]  # a dimension without arithmetic


def test_a_variant_has_other_operands_and_lacks_attributes():
    text = TEXT.replace("y = Abs(x)", "y = ReduceSum<keepdims = 1>(x)")
    editor = GraphEditor(ir.from_onnx_text(text).graph, opset=23)
    node, builder = editor.graph[0], editor.before(editor.graph[0])
    value = builder.variant(node, [builder.op.Neg(editor.graph.inputs[0])], dims=[1], without=["keepdims"])
    made = value.producer()
    assert made is not None
    assert (made.op_type, dict(made.attributes), value.shape) == ("ReduceSum", {}, ir.Shape([1]))


def test_an_output_that_cannot_be_an_input_becomes_an_identity_of_it_once():
    editor = edited()
    node, x = editor.graph[0], editor.graph.inputs[0]
    readers = [nested.graph[0] for nested in editor.nested()]
    assert editor.replace(node, x)
    assert operators(editor) == ["Identity", "If"]
    assert [reader.inputs[0] for reader in readers] == [x, x]
    assert [output.name for output in editor.graph.outputs] == ["z", "y"]
    assert not editor.replace(node, x)


def test_an_output_that_a_node_with_bodies_computes_stays_that_of_the_node():
    editor = edited()
    assert not editor.replace(editor.graph[1], editor.graph.inputs[0])
    assert operators(editor) == ["Abs", "If"]
