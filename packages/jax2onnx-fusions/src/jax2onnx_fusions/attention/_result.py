"""`Replacement`: the result of an operator instead of a value with other axes, and of the views of that value."""

from __future__ import annotations

__all__ = ["Replacement", "put_result", "replacement"]

import dataclasses
from collections.abc import Sequence

from jax2onnx_graph import ir
from jax2onnx_graph.facts.values import LabelledDim
from jax2onnx_graph.rewrite.editor import GraphEditor
from jax2onnx_graph.traversal import is_value_read

from jax2onnx_fusions._reasons import UnreadableError
from jax2onnx_fusions.attention._arrangement import Candidate, Move, moved, moves_between
from jax2onnx_fusions.attention._axes import Axes, resolved, size_of, through

_VIEWS = ("Transpose", "Reshape", "Squeeze", "Unsqueeze", "Flatten")


@dataclasses.dataclass(frozen=True)
class Replacement:
    """The moves from the result of an operator to that of the node that it replaces.

    Attributes:
      node: the node.
      moves: the nodes that make the one result of the other; None where that cannot be written.
      views: the same for the views of the node's result, which are replaced first, often with fewer moves.
    """

    node: ir.Node
    moves: Sequence[Move] | None
    views: Sequence[Replacement]

    @property
    def is_complete(self) -> bool:
        """Whether nothing has to read the result of the node any more."""
        output = self.node.outputs[0]
        replaced = {view.node for view in self.views if view.is_complete}
        return self.moves is not None or (
            not output.is_graph_output() and {user for user, _ in output.uses()} <= replaced
        )


def replacement(node: ir.Node, axes: Axes, own: Axes, sized: Sequence[Candidate]) -> Replacement:
    """The moves from the result of an operator with the axes `own` to that of a node with the axes `axes`.

    Args:
      node: the node.
      axes: its axes.
      own: the axes of the operator's result.
      sized: values from which sizes may be read, computed before the node.

    Raises:
      UnreadableError: it cannot.
    """
    dims = tuple(map(size_of, own))
    found = _replacement(node, axes, own, dims, ())
    if not found.is_complete:
        found = _replacement(node, axes, own, dims, sized)
    if not found.is_complete:
        raise UnreadableError(
            "the result cannot be arranged as it is read without computing several symbolic dimensions"
        )
    return found


def _replacement(
    node: ir.Node, axes: Axes, own: Axes, dims: Sequence[LabelledDim], sized: Sequence[Candidate]
) -> Replacement:
    views: list[Replacement] = []
    if resolved(axes) != resolved(own):
        for user, _ in node.outputs[0].uses():
            further = _through(user, axes) if user.graph is node.graph else None
            if further is not None:
                views.append(_replacement(user, further, own, dims, sized))
    try:
        return Replacement(node, moves_between(dims, own, axes, sized), views)
    except UnreadableError:
        return Replacement(node, None, views)


def _through(node: ir.Node, axes: Axes) -> Axes | None:
    """The axes of the result of a view; None for other nodes, and where they cannot be told."""
    if node.domain or node.op_type not in _VIEWS:
        return None
    try:
        return through(node, axes)
    except UnreadableError:
        return None


def put_result(editor: GraphEditor, found: Replacement, result: ir.Value) -> None:
    """Let all that reads a node and its views read `result`, arranged as they are."""
    for view in found.views:
        put_result(editor, view, result)
    output = found.node.outputs[0]
    is_read = is_value_read(output)
    if found.moves is not None and (is_read or not found.moves):
        editor.replace(found.node, moved(editor.before(found.node), result, found.moves))
