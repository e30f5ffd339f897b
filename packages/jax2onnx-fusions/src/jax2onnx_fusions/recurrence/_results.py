"""Recurrent operators, their results, and the views of these that other nodes read."""

from __future__ import annotations

__all__ = [
    "DIRECTIONS",
    "OPERATORS",
    "all_results",
    "direction_of",
    "last_kept",
    "own_readers",
    "reads_all_steps",
    "recurrences",
    "views_of_result",
]

from collections.abc import Iterator, Sequence

from jax2onnx_graph import ir
from jax2onnx_graph.facts.axes import named_axes
from jax2onnx_graph.facts.values import dims_of, operand
from jax2onnx_graph.rewrite.editor import GraphEditor
from jax2onnx_graph.rewrite.patterns import permutation_of

#: The recurrent operators.
OPERATORS = frozenset({"LSTM", "GRU", "RNN"})
#: The axes of the directions in their results Y [T, directions, B, H], Y_h and Y_c [directions, B, H].
DIRECTIONS = (1, 0, 0)


def recurrences(editor: GraphEditor) -> list[ir.Node]:
    """The recurrent operators of a graph."""
    return [node for node in editor.nodes() if node.op_type in OPERATORS and not node.domain]


def direction_of(node: ir.Node) -> str:
    """The direction of a recurrent operator: "forward", "reverse" or "bidirectional"."""
    return node.attributes.get_string("direction", "forward")


def reads_all_steps(node: ir.Node) -> bool:
    """Whether a recurrent operator reads all steps of each sequence, and its first axis is that of steps."""
    return operand(node, 4) is None and node.attributes.get_int("layout", 0) == 0


def all_results(editor: GraphEditor, node: ir.Node) -> Sequence[ir.Value]:
    """All results of a recurrent operator; those that it was written without are added."""
    node.resize_outputs(3 if node.op_type == "LSTM" else 2)
    whole = node.outputs[0]
    for value in node.outputs[1:]:
        if not value.name:
            value.name = editor.value_name(f"{node.name or node.op_type}_state")
            value.type, value.shape = whole.type, ir.Shape((dims_of(whole) or ())[1:])
    return node.outputs


def own_readers(value: ir.Value) -> list[ir.Node]:
    """The nodes that read a value, in the graph of the one that makes it: those in loops and branches cannot be replaced there."""
    maker = value.producer()
    return [user for user, _ in value.uses() if maker is not None and user.graph is maker.graph]


def views_of_result(result: ir.Value, axis: int) -> Iterator[tuple[ir.Value, tuple[int, ...]]]:
    """The views of a result, itself among them: without its axes of directions and of a batch of one, and transposed.

    Each comes with a permutation of the axes of the result: first those that the view has, in its order, then those that it
    lacks, last the features.

    Args:
      result: a result of a recurrent operator.
      axis: its axis of the directions.
    """
    rank = len(dims_of(result) or ())
    yield result, tuple(range(rank))
    for view in own_readers(result):
        gone = named_axes(view, rank) if view.op_type == "Squeeze" and not view.domain else None
        if gone is None or axis not in gone or rank - 1 in gone:
            continue
        kept = [i for i in range(rank - 1) if i not in gone]
        value = view.outputs[0]
        yield value, (*kept, *gone, rank - 1)
        for node in own_readers(value):
            if node.op_type == "Unsqueeze" and dims_of(node.outputs[0]) == dims_of(result):
                yield node.outputs[0], tuple(range(rank))
            elif (order := last_kept(node)) is not None:
                yield node.outputs[0], (*(kept[i] for i in order), *gone, rank - 1)


def last_kept(node: ir.Node) -> list[int] | None:
    """The permutation of all axes but the last, of a Transpose that does not move the last; None for other nodes."""
    perm = permutation_of(node) if node.op_type == "Transpose" and not node.domain else ()
    return list(perm[:-1]) if perm and perm[-1] == len(perm) - 1 else None
