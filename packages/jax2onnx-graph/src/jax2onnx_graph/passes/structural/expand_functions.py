"""Write operators that the target lacks as ONNX's own schemas define them by others."""

from __future__ import annotations

__all__ = ["ExpandFunctions"]

import numpy as np
import onnx

from jax2onnx_graph._ir import ir
from jax2onnx_graph.arrays import Array
from jax2onnx_graph.build.attributes import attribute_values
from jax2onnx_graph.facts.operators import facts_of
from jax2onnx_graph.rewrite.editor import GraphEditor
from jax2onnx_graph.rewrite.pass_base import GraphPass


class ExpandFunctions(GraphPass):
    """Replace operators by the functions that define them.

    1. A standard operator that the target does not compute at the element type of its main operand becomes the body of
       the function by which its schema defines it, if there is one.
    2. A body whose operators mean something else at the opset of the model, or that holds a graph, is not used.
    """

    def rewrite(self, editor: GraphEditor) -> None:
        """Expand each node that the target lacks."""
        for node in list(editor.nodes()):
            if node.domain or editor.supports(node.op_type, _main_value(node, editor.opset)):
                continue
            body = _body(node, editor.opset)
            if body is not None:
                _expand(editor, node, body)


def _main_value(node: ir.Node, opset: int) -> ir.Value | None:
    """The operand whose element type decides whether there is a kernel; the result where operands do not."""
    variable = facts_of(node.op_type).element_type
    schema = onnx.defs.get_schema(node.op_type, opset, "")
    for formal, value in zip(schema.inputs, node.inputs, strict=False):
        if value is not None and (variable is None or formal.type_str == variable):
            return value
    return node.outputs[0]


def _body(node: ir.Node, opset: int) -> ir.Function | None:
    """The function that defines the node's operator, in terms of operators of the model's opset."""
    schema = onnx.defs.get_schema(node.op_type, opset, "")
    plain = [v for v in schema.function_opset_versions if v <= opset]
    by_types = [v for v in schema.context_dependent_function_opset_versions if v <= opset]
    if len(node.outputs) != 1 or not plain + by_types:
        return None
    written = max(plain or by_types)
    if plain:
        data = schema.get_function_with_opset_version(written)
    else:
        types = [b"" if v is None else ir.to_proto(v).type.SerializeToString() for v in node.inputs]
        data = schema.get_context_dependent_function_with_opset_version(
            written, ir.to_proto(node).SerializeToString(), types
        )
    if not data:
        return None
    proto = onnx.FunctionProto.FromString(data)
    del proto.output[len(node.outputs) :]  # results that the node does not have, and the body need not compute
    body = ir.from_proto(proto)
    return body if all(_means_the_same(inner, written, opset) for inner in body) else None


def _means_the_same(node: ir.Node, written: int, used: int) -> bool:
    """Whether a node of a body that was written for one opset is the same at another, and holds no graph."""
    if node.domain or any(attribute.type == ir.AttributeType.GRAPH for attribute in node.attributes.values()):
        return False
    before, now = (onnx.defs.get_schema(node.op_type, version, "") for version in (written, used))
    same_operands = [i.name for i in before.inputs] == [i.name for i in now.inputs]
    return same_operands and set(before.attributes) == set(now.attributes)


def _expand(editor: GraphEditor, node: ir.Node, body: ir.Function) -> None:
    builder = editor.before(node)
    values: dict[ir.Value | None, ir.Value | None] = {None: None}
    values.update(zip(body.inputs, [*node.inputs, *[None] * len(body.inputs)], strict=False))
    for inner in body:
        _bind_references(inner, node)
        if inner.op_type == "Constant":
            values[inner.outputs[0]] = editor.constant(_constant(inner))
            continue
        operands = [values[v] for v in inner.inputs]
        results = builder.emit(inner.op_type, operands, "", len(inner.outputs), None, None, attribute_values(inner))
        values.update(zip(inner.outputs, results, strict=True))
    result = values[body.outputs[0]]
    assert result is not None, "a function computes its result"
    result.shape = node.outputs[0].shape
    editor.replace(node, result)


def _bind_references(inner: ir.Node, node: ir.Node) -> None:
    """Give a node of a body the attributes of the call that it refers to."""
    for name, attribute in list(inner.attributes.items()):
        if not attribute.is_ref():
            continue
        given = node.attributes.get(attribute.ref_attr_name or "")
        if given is None:
            del inner.attributes[name]
        else:
            inner.attributes[name] = ir.Attr(name, given.type, given.value)


def _constant(node: ir.Node) -> Array:
    """The array of a Constant node, whichever of its attributes holds it."""
    (attribute,) = node.attributes.values()
    if attribute.type == ir.AttributeType.TENSOR:
        return attribute.as_tensor().numpy()
    return np.array(attribute.value, np.int64 if "INT" in attribute.type.name else np.float32)
