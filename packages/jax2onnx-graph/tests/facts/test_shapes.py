"""Inferred shapes against ONNX's own shape inference."""

from __future__ import annotations

from typing import Any

import onnx
import onnx_ir as ir
import pytest
from jax2onnx_graph.facts.operators import Elementwise, facts_of, operators_where
from jax2onnx_graph.facts.shapes import broadcast_dims, infer_dims
from jax2onnx_graph.facts.values import LabelledDim, dims_of
from jax2onnx_graph.rewrite.editor import labelled
from onnx_ir.passes.common import ShapeInferencePass

HEAD = '<ir_version: 10, opset_import: ["" : 26]>\n'


def inferred(node: ir.Node) -> tuple[object, ...] | None:
    known = {
        value: labelled(value.shape.dims) for value in node.inputs if value is not None and value.shape is not None
    }
    attributes = {name: attribute.value for name, attribute in node.attributes.items()}
    return infer_dims(node.op_type, node.inputs, attributes, known)


@pytest.mark.parametrize(
    "line",
    [
        "y = Transpose<perm=[2,0,1]>(x)",
        "y = Transpose(x)",
        "y = Gather<axis=1>(x, i)",
        "y = Gather(x, i)",
        "y = GatherElements(w, j)",
        "y = Concat<axis=-1>(w, w)",
        "y = MatMul(x, w)",
        "y = MatMul(w, v)",
        "y = Squeeze(o, zero)",
        "y = Unsqueeze(x, ends)",
        "y, z = Split<num_outputs=2, axis=1>(w)",
        "y = Shape<start=1>(x)",
        "y = Shape<end=-1>(x)",
        "y = ArgMax<axis=-1>(x)",
        "y = ArgMin<keepdims=0>(x)",
        "y = ReduceSum(x)",
        "y = ReduceMax<keepdims=0>(x, ends)",
        "y = ReduceMean(x, ends)",
        "y = ReduceSum<keepdims=0>(x)",
        "y = Where(c, x, s)",
        "y = Add(x, s)",
        "y = Clip(x, s, s)",
        "y = PRelu(x, s)",
        "y = CumSum(x, k)",
        "y = Softmax(x)",
        "y = Trilu(x)",
        "y = ScatterND(w, j, w)",
        "y = Cast<to=10>(x)",
    ],
)
def test_inferred_dimensions_are_those_of_onnx(line):
    text = f"""g (float[N,5,4] x, float[4,6] w, float[6] v, float[1,4] o, float s, bool[5,1] c, int64[2,3] i, int64[4,2] j)
      => (y) <int64[1] zero = {{0}}, int64[2] ends = {{0, -1}}, int64 k = {{1}}> {{ {line} }}"""
    model = ShapeInferencePass()(ir.from_onnx_text(HEAD + text)).model
    node = model.graph[-1]
    wanted = dims_of(node.outputs[0])
    assert wanted is not None
    assert inferred(node) == wanted


def test_every_result_of_a_split_has_the_shape_that_is_inferred():
    model = ir.from_onnx_text(HEAD + "g (float[4,6] x) => (y, z) { y, z = Split<num_outputs=2>(x) }")
    assert inferred(model.graph[0]) == (2, 6)


@pytest.mark.parametrize(
    "line",
    [
        "y = Reshape(x, shape)",
        "y = ReduceSum(x, shape)",
        "y = Squeeze(x)",
        "y = NonZero(x)",
        "y = Split<num_outputs=2>(x)",
        "y = MatMul(x, unknown)",
        "y = Add(x, unknown)",
        "y = Exp(unknown)",
    ],
)
def test_nothing_is_invented(line):
    text = f"g (float[3,4] x, int64[1] shape, float unknown) => (y) {{ {line} }}"
    model = ir.from_onnx_text(HEAD + text)
    model.graph.inputs[2].shape = None
    assert inferred(model.graph[0]) is None


def test_branches_of_one_shape_give_it_to_an_if():
    bodies = "then_branch = t () => (float[2] a) { a = Identity(x) }, else_branch = e () => (float[2] b) { b = Neg(x) }"
    model = ir.from_onnx_text(HEAD + f"g (float[2] x, bool c) => (y) {{ y = If<{bodies}>(c) }}")
    graphs = {name: attribute.as_graph() for name, attribute in model.graph[0].attributes.items()}
    known = {graph.outputs[0]: (2,) for graph in graphs.values()}
    assert infer_dims("If", model.graph[0].inputs, graphs, known) == (2,)
    known[graphs["else_branch"].outputs[0]] = (3,)
    assert infer_dims("If", model.graph[0].inputs, graphs, known) is None


def test_an_attribute_of_the_wrong_type_is_refused():
    model = ir.from_onnx_text(HEAD + "g (float[2] x) => (y) { y = ArgMax(x) }")
    with pytest.raises(TypeError, match="axis is a number, not 'last'"):
        infer_dims("ArgMax", model.graph.inputs, {"axis": "last"}, {model.graph.inputs[0]: (2,)})


LIKE_FIRST = sorted(operators_where(lambda facts: facts.has_shape_of_first))
PREFERRED = ("tensor(float)", "tensor(int64)", "tensor(int32)", "tensor(uint8)", "tensor(bool)")


def one_node(op_type: str, shapes: list[list[int]]) -> onnx.ModelProto:
    """A model of one node on operands of these shapes (the last one repeats), of types that the schema allows."""
    schema = onnx.defs.get_schema(op_type)
    allowed = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}
    count = max(schema.min_input, len(shapes))
    inputs = []
    for index in range(count):
        choices = allowed.get(letter := schema.inputs[min(index, len(schema.inputs) - 1)].type_str, [letter])
        name = next(choice for choice in PREFERRED if choice in choices)[7:-1].upper()
        dims = shapes[min(index, len(shapes) - 1)]
        inputs.append(onnx.helper.make_tensor_value_info(f"x{index}", onnx.TensorProto.DataType.Value(name), dims))
    attributes: dict[str, Any] = {
        name: 1 if attribute.type == onnx.defs.OpSchema.AttrType.INT else "LEFT"
        for name, attribute in schema.attributes.items()
        if attribute.required
    }
    node = onnx.helper.make_node(
        op_type, [value.name for value in inputs], [f"y{i}" for i in range(schema.min_output)], **attributes
    )
    graph = onnx.helper.make_graph([node], "g", inputs, [onnx.ValueInfoProto(name="y0")])
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", schema.since_version)])


def onnx_dims(model: onnx.ModelProto) -> tuple[int, ...] | None:
    (output,) = onnx.shape_inference.infer_shapes(model).graph.output
    tensor = output.type.tensor_type
    return tuple(dim.dim_value for dim in tensor.shape.dim) if tensor.HasField("shape") else None


@pytest.mark.parametrize("op_type", LIKE_FIRST)
def test_results_like_the_first_operand_are_that_in_onnx(op_type):
    first = [4, 5] if op_type == "EyeLike" else [2, 3, 4, 5]
    shapes = [first, [5]] if op_type in ("LayerNormalization", "RMSNormalization", "PRelu") else [first, [3]]
    shapes = [first, first, [2]] if op_type == "TensorScatter" else shapes[: onnx.defs.get_schema(op_type).min_input]
    assert onnx_dims(one_node(op_type, shapes)) in (tuple(first), None)


@pytest.mark.parametrize("op_type", sorted(operators_where(lambda facts: facts.elementwise is Elementwise.BROADCAST)))
def test_operators_that_broadcast_do_so_in_onnx(op_type):
    shapes = [[2, 1, 4], [3, 1]]
    assert onnx_dims(one_node(op_type, shapes)) == (2, 3, 4) == broadcast_dims(shapes)
    assert not facts_of(op_type).has_shape_of_first


def test_shapes_broadcast_as_in_numpy():
    assert broadcast_dims([]) == ()
    assert broadcast_dims([(), (2, 1)]) == (2, 1)
    assert broadcast_dims([(0,), (1,)]) == (0,)
    assert broadcast_dims([(2,), (3,)]) is None
    assert broadcast_dims([(2,), None]) is None


def test_labels_broadcast_where_they_are_certainly_equal():
    n, m, unknown = ir.SymbolicDim("N"), ir.SymbolicDim("M"), ir.SymbolicDim(None)
    pairs: list[tuple[LabelledDim, ...]] = [(n, 1), (n, 3)]
    assert broadcast_dims(pairs) == (n, 3)
    singles: list[tuple[LabelledDim, ...]] = [(1,), (unknown,)]
    assert broadcast_dims(singles) == (unknown,)
    assert broadcast_dims([(n,), (m,)]) is None
    assert broadcast_dims([(unknown,), (unknown,)]) is None
