"""`EliminateCommonSubexpressions`: one node stands for all that compute the same."""

from __future__ import annotations

import functools
from collections.abc import Hashable, Iterable

from jax2onnx_graph._ir import ir
from jax2onnx_graph.facts.operators import facts_of
from jax2onnx_graph.fingerprints import array_fingerprint, fingerprint
from jax2onnx_graph.rewrite.editor import GraphEditor
from jax2onnx_graph.rewrite.pass_base import GraphPass, Phase
from jax2onnx_graph.traversal import HAS_SUBGRAPHS

__all__ = ["EliminateCommonSubexpressions", "node_key"]

# Tensors of more elements are weights, which are stored once anyway.
_MOST_ELEMENTS = 10
# Asked for by type, because a look whether an object has the members of a protocol takes long.
_TENSORS = {ir.AttributeType.TENSOR, ir.AttributeType.TENSORS}
_GRAPHS = {ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS}


class EliminateCommonSubexpressions(GraphPass):
    """Merge equal nodes. (`onnx_ir`'s pass of this name takes 0.0 and -0.0, or 1 and 1.0, for equal attributes.)

    1. A node gives way to an earlier one with the same operator, operands and attributes, in its graph or in one around it.
    2. Nodes with subgraphs or large tensors, and those that draw random numbers, are kept; so are Identities, which give one value to
       several outputs.
    3. An output of the graph takes its name to the node that remains; a second output, and an output of a body that a graph
       around it computes, goes through Identity.
    """

    phase = Phase.SIMPLIFY
    visits_subgraphs = False

    def rewrite_graph(self, editor: GraphEditor) -> None:
        _merge_equal(editor, {})


def _merge_equal(editor: GraphEditor, seen: dict[Hashable, ir.Node]) -> None:
    """Merge equal nodes of a graph, and of those in it, where `seen` are the nodes before them and around it."""
    own: list[Hashable] = []
    for node in editor.nodes():
        op_type = node.op_type
        if op_type in HAS_SUBGRAPHS:
            for inner in editor.nested_in(node):
                _merge_equal(inner, seen)
                editor.modified |= inner.finish()
        elif op_type != "Identity" and (first := _first_equal(node, seen, own)) is not node:
            _merge(editor, node, first)
    for key in own:
        del seen[key]


def _first_equal(node: ir.Node, seen: dict[Hashable, ir.Node], own: list[Hashable]) -> ir.Node:
    """The first of the nodes that compute the same as a node, which is the node itself where there is no other.

    Args:
      node: the node.
      seen: the nodes before it, by operator and operands; by their whole keys, too, where these are equal.
      own: gets the keys that are added to `seen`.
    """
    if node.inputs:
        earlier = _look_up((node.op_type, node.inputs), node, seen, own)
        if earlier is node:
            return node
        _first_of_key(earlier, seen, own)
    return _first_of_key(node, seen, own)


def _first_of_key(node: ir.Node, seen: dict[Hashable, ir.Node], own: list[Hashable]) -> ir.Node:
    key = node_key(node, node.inputs)
    return node if key is None else _look_up(key, node, seen, own)


def _look_up(key: Hashable, node: ir.Node, seen: dict[Hashable, ir.Node], own: list[Hashable]) -> ir.Node:
    """The node that was seen with a key; this one, which is seen from now on, where none was."""
    first = seen.get(key)
    if first is None:
        first = seen[key] = node
        own.append(key)
    return first


class _NodeKey:
    """The operator, operands and attributes of a node; attributes are read only where the others are equal, as they seldom are."""

    def __init__(self, node: ir.Node, operands: tuple[Hashable, ...]) -> None:
        self._operation = node.domain, node.op_type, node.overload, len(node.outputs), operands
        self._attributes = list(node.attributes.values()) if node.attributes.data else ()
        # Nodes without operands, such as Constant, differ in attributes alone.
        self._hash = hash(self._operation if operands else (self._operation, self._fingerprint))

    @functools.cached_property
    def _fingerprint(self) -> Hashable:
        return tuple(
            (a.name, a.type, a.ref_attr_name, fingerprint(a.value, _of_tensor if a.type in _TENSORS else _of_no_tensor))
            for a in sorted(self._attributes, key=lambda attribute: attribute.name)
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _NodeKey) or self._operation != other._operation:
            return False
        return self._fingerprint == other._fingerprint

    def __hash__(self) -> int:
        return self._hash


def node_key(node: ir.Node, operands: Iterable[Hashable]) -> Hashable | None:
    """A key that is equal for nodes that compute the same from equal `operands`; None for a node that has to stay."""
    if not node.domain and facts_of(node.op_type).is_random:
        return None
    for attribute in node.attributes.values() if node.attributes.data else ():
        is_tensor = attribute.type is ir.AttributeType.TENSOR and attribute.value is not None
        if attribute.type in _GRAPHS or (is_tensor and attribute.as_tensor().size > _MOST_ELEMENTS):
            return None
    return _NodeKey(node, tuple(operands))


def _of_tensor(value: object) -> Hashable | None:
    return array_fingerprint(value.numpy()) if isinstance(value, ir.TensorProtocol) else None


def _of_no_tensor(_: object) -> Hashable | None:
    return None


def _merge(editor: GraphEditor, node: ir.Node, first: ir.Node) -> None:
    """Let the results of `first` be read in the place of those of `node`, which is discarded."""
    for old, new in zip(node.outputs, first.outputs, strict=True):
        editor.replace_result(node, old, new)
    editor.discard(node)
