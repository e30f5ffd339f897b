"""`ExpandFunctions`: operators that the target lacks are written as ONNX's own schemas define them by others."""

from __future__ import annotations

__all__ = ["ExpandFunctions"]

from collections.abc import Mapping

import numpy as np

from jax2onnx_graph._ir import ir
from jax2onnx_graph.arrays import Array
from jax2onnx_graph.build.attributes import attribute_values
from jax2onnx_graph.facts.availability import schema_of
from jax2onnx_graph.facts.definitions import definition_of
from jax2onnx_graph.rewrite.editor import GraphEditor
from jax2onnx_graph.rewrite.pass_base import NodePass


class ExpandFunctions(NodePass[ir.Function]):
    """Replace operators by the functions that define them.

    1. A standard operator that the target does not compute at the element type of its main operand becomes the body of
       the function by which its schema defines it, if there is one.
       Attributes that the node does not give have their defaults.
    2. A body whose operators mean something else at the opset of the model, or that holds a graph, is not used.
    """

    operators = None

    def match(self, node: ir.Node, editor: GraphEditor) -> ir.Function | None:
        """The function that defines an operator which the target lacks."""
        return None if editor.target.computes(node, editor.opset) else definition_of(node, editor.opset)

    def rewrite(self, node: ir.Node, match: ir.Function, editor: GraphEditor) -> None:
        builder, defaults = editor.before(node), _defaults(node, editor.opset)
        values: dict[ir.Value | None, ir.Value | None] = {None: None}
        values.update(zip(match.inputs, [*node.inputs, *[None] * len(match.inputs)], strict=False))
        for inner in match:
            _bind_references(inner, node, defaults)
            if inner.op_type == "Constant":
                values[inner.outputs[0]] = editor.constant(_constant(inner))
                continue
            operands = [values[v] for v in inner.inputs]
            results = builder.emit(inner.op_type, operands, "", len(inner.outputs), None, None, attribute_values(inner))
            values.update(zip(inner.outputs, results, strict=True))
        result = values[match.outputs[0]]
        assert result is not None, "a function computes its result"
        result.shape = node.outputs[0].shape
        editor.replace(node, result)


def _defaults(node: ir.Node, opset: int) -> Mapping[str, ir.Attr]:
    """The attributes of an operator that have a default, by name."""
    schema = schema_of(node.op_type, opset)
    protos = [] if schema is None else [attribute.default_value for attribute in schema.attributes.values()]
    return {proto.name: ir.serde.deserialize_attribute(proto) for proto in protos if proto.name}


def _bind_references(inner: ir.Node, node: ir.Node, defaults: Mapping[str, ir.Attr]) -> None:
    """Give a node of a body the attributes of the call that it refers to, or their defaults."""
    for name, attribute in list(inner.attributes.items()):
        if not attribute.is_ref():
            continue
        name_of_call = attribute.ref_attr_name or ""
        given = node.attributes.get(name_of_call) or defaults.get(name_of_call)
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
