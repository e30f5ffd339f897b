"""`EliminateCommonSubexpressions`: one node stands for all that compute the same."""

from __future__ import annotations

from collections.abc import Hashable

from jax2onnx_graph._ir import ir
from jax2onnx_graph.facts.operators import facts_of
from jax2onnx_graph.fingerprints import array_fingerprint, fingerprint
from jax2onnx_graph.rewrite.editor import GraphEditor
from jax2onnx_graph.rewrite.pass_base import GraphPass

__all__ = ["EliminateCommonSubexpressions"]

# Tensors of more elements are weights, which are stored once anyway.
_MOST_ELEMENTS = 10
# Asked for by type, because a look whether an object has the members of a protocol takes long.
_TENSORS = {ir.AttributeType.TENSOR, ir.AttributeType.TENSORS}


class EliminateCommonSubexpressions(GraphPass):
    """Merge equal nodes. (`onnx_ir`'s pass of this name takes 0.0 and -0.0, or 1 and 1.0, for equal attributes.)

    1. A node of the main graph or a function gives way to an earlier one with the same operator, operands and attributes.
    2. Nodes with subgraphs or large tensors, and those that draw random numbers, are kept.
    3. An output of the graph takes its name to the node that remains; a second output goes through Identity.
    """

    visits_subgraphs = False

    def rewrite_graph(self, editor: GraphEditor) -> None:
        seen: dict[Hashable, ir.Node] = {}
        for node in editor.nodes():
            key = _key(node)
            first = node if key is None else seen.setdefault(key, node)
            if first is not node:
                _merge(editor, node, first)


def _key(node: ir.Node) -> Hashable | None:
    """A key that is equal for nodes that compute the same; None for a node that has to stay."""
    if not node.domain and facts_of(node.op_type).is_random:
        return None
    attributes: list[Hashable] = []
    for name, attribute in sorted(node.attributes.items()):
        is_tensor = attribute.type is ir.AttributeType.TENSOR and attribute.value is not None
        if attribute.type in (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS):
            return None
        if is_tensor and attribute.as_tensor().size > _MOST_ELEMENTS:
            return None
        special = _of_tensor if attribute.type in _TENSORS else _of_no_tensor
        attributes.append((name, attribute.type, attribute.ref_attr_name, fingerprint(attribute.value, special)))
    return node.op_identifier(), len(node.outputs), tuple(node.inputs), tuple(attributes)


def _of_tensor(value: object) -> Hashable | None:
    return array_fingerprint(value.numpy()) if isinstance(value, ir.TensorProtocol) else None


def _of_no_tensor(_: object) -> Hashable | None:
    return None


def _merge(editor: GraphEditor, node: ir.Node, first: ir.Node) -> None:
    """Let the results of `first` be read in the place of those of `node`, which is discarded."""
    for old, new in zip(node.outputs, first.outputs, strict=True):
        if old.is_graph_output() and (new.is_graph_output() or new.is_graph_input()):
            copy = ir.Value(type=old.type, shape=old.shape)
            editor.insert_before(node, ir.Node("", "Identity", [new], outputs=[copy]))
            editor.hand_over_output(old, copy)
        editor.replace_value(old, new)
    editor.discard(node)
