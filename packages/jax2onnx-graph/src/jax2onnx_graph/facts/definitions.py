"""The functions by which ONNX's schemas define operators by others."""

from __future__ import annotations

import onnx

from jax2onnx_graph._ir import ir
from jax2onnx_graph.facts.availability import schema_of

__all__ = ["definition_of"]


def definition_of(node: ir.Node, opset: int) -> ir.Function | None:
    """The function that defines the operator of a node with one result, in terms of operators of the model's opset.

    None if there is no such function, if its operators mean something else at that opset, or if it holds a graph.
    """
    schema = schema_of(node.op_type, opset)
    if node.domain or schema is None:
        return None
    # ONNX's stubs lack these members.
    plain = [v for v in schema.function_opset_versions if v <= opset]  # type: ignore[attr-defined]
    by_types = [v for v in schema.context_dependent_function_opset_versions if v <= opset]  # type: ignore[attr-defined]
    if len(node.outputs) != 1 or not plain + by_types:
        return None
    written = max(plain or by_types)
    if plain:
        data = schema.get_function_with_opset_version(written)  # type: ignore[attr-defined]
    else:
        types = [b"" if v is None else ir.to_proto(v).type.SerializeToString() for v in node.inputs]
        data = schema.get_context_dependent_function_with_opset_version(  # type: ignore[attr-defined]
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
    before, now = schema_of(node.op_type, written), schema_of(node.op_type, used)
    if before is None or now is None:
        return False
    same_operands = [i.name for i in before.inputs] == [i.name for i in now.inputs]
    # An attribute that came later has a default, which is what the operator did before.
    return same_operands and set(before.attributes) <= set(now.attributes)
