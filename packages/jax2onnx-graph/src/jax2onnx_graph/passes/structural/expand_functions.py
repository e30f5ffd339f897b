"""Write operators that the target lacks as ONNX's own schemas define them by others."""

from __future__ import annotations

__all__ = ["ExpandFunctions"]

import numpy as np

from jax2onnx_graph._ir import ir
from jax2onnx_graph.arrays import Array
from jax2onnx_graph.build.attributes import attribute_values
from jax2onnx_graph.facts.definitions import definition_of
from jax2onnx_graph.rewrite.editor import GraphEditor
from jax2onnx_graph.rewrite.pass_base import GraphPass


class ExpandFunctions(GraphPass):
    """Replace operators by the functions that define them.

    1. A standard operator that the target does not compute at the element type of its main operand becomes the body of
       the function by which its schema defines it, if there is one.
    2. A body whose operators mean something else at the opset of the model, or that holds a graph, is not used.
    """

    def rewrite_graph(self, editor: GraphEditor) -> None:
        """Expand each node that the target lacks."""
        for node in list(editor.nodes()):
            body = None if editor.target.computes(node, editor.opset) else definition_of(node, editor.opset)
            if body is not None:
                _expand(editor, node, body)


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
