"""Reversals of sequences above and below a node, and the views between them."""

from __future__ import annotations

__all__ = [
    "Reversal",
    "index_taken",
    "is_reversed_by_readers",
    "reapplied",
    "reversal_above",
    "reversed_axis",
]

import dataclasses
from collections.abc import Sequence

from jax2onnx_graph import ir
from jax2onnx_graph.facts.sub_axes import SubAxis, operand_sub_axes, result_sub_axes
from jax2onnx_graph.facts.values import dims_of, known
from jax2onnx_graph.rewrite.editor import InsertionPoint, labelled
from jax2onnx_graph.rewrite.patterns import operation, permutation_of
from jax2onnx_graph.rewrite.permutations import permuted

_FAR = -(2**31)
_VIEWS = ("Transpose", "Squeeze", "Unsqueeze")


@dataclasses.dataclass(frozen=True)
class Reversal:
    """A sequence that is reversed, and then perhaps viewed.

    Attributes:
      source: the sequence.
      views: the views that come after its reversal, last first.
    """

    source: ir.Value
    views: Sequence[ir.Node]


def reversed_axis(node: ir.Node | None) -> int | None:
    """The axis that a Slice reverses; None for one that does something else."""
    if node is None or node.op_type != "Slice" or node.domain or len(node.inputs) < 5:
        return None
    bounds = [known(operand) for operand in node.inputs[1:]]
    numbers = [int(bound[0]) for bound in bounds if bound is not None and bound.size == 1]
    dims = dims_of(node.inputs[0])
    if len(numbers) < 4 or dims is None:
        return None
    start, stop, axis, step = numbers
    size = dims[axis]
    is_whole = stop <= _FAR or (isinstance(size, int) and stop < -size)
    is_from_end = start == -1 or start == size - 1 if isinstance(size, int) else start == -1
    return axis % len(dims) if step == -1 and is_whole and is_from_end else None


def index_taken(node: ir.Node) -> tuple[int, int] | None:
    """The axis and the index of a Gather that takes one known index; None for others."""
    if node.op_type != "Gather" or node.domain:
        return None
    index, dims = known(node.inputs[1]), dims_of(node.inputs[0])
    if index is None or index.ndim or dims is None:
        return None
    return node.attributes.get_int("axis", 0) % len(dims), int(index)


def reversal_above(value: ir.Value | None, axis: int) -> Reversal | None:
    """The sequence whose reversal along `axis` of `value`, perhaps after views, is `value`."""
    views: list[ir.Node] = []
    while value is not None and (node := value.producer()) is not None:
        if reversed_axis(node) == axis:
            return None if node.inputs[0] is None else Reversal(node.inputs[0], views)
        above = _axis_above(node, axis)
        if above is None:
            return None
        views.append(node)
        value, axis = node.inputs[0], above
    return None


def _axis_above(view: ir.Node, axis: int) -> int | None:
    """The axis of the operand that is `axis` of the result of a view."""
    return _axis(view, operand_sub_axes(view, SubAxis(axis)))


def _axis_below(view: ir.Node, axis: int) -> int | None:
    """The axis of the result that is `axis` of the operand of a view."""
    return _axis(view, result_sub_axes(view, 0, SubAxis(axis)))


def _axis(view: ir.Node, found: Sequence[SubAxis | None] | None) -> int | None:
    """The axis that was found on the other side of a Transpose, Squeeze or Unsqueeze; None for other nodes."""
    rows = None if found is None or view.op_type not in _VIEWS else found[0]
    return rows.axis if rows is not None and rows.is_whole else None


def is_reversed_by_readers(value: ir.Value, axis: int) -> bool:
    """Whether all that reads `value` reverses its `axis`, or takes one index of it, perhaps after views."""
    if value.is_graph_output():
        return False
    for node, _ in value.uses():
        taken = index_taken(node)
        if reversed_axis(node) == axis or (taken is not None and taken[0] == axis):
            continue
        below = _axis_below(node, axis)
        if below is None or not is_reversed_by_readers(node.outputs[0], below):
            return False
    return True


def reapplied(builder: InsertionPoint, views: Sequence[ir.Node], source: ir.Value) -> ir.Value:
    """`source` after views like these, last first."""
    for view in reversed(views):
        inner = operation(source, "Transpose")
        if view.op_type == "Transpose" and inner is not None and inner.inputs[0] is not None:
            source = builder.transpose(inner.inputs[0], permuted(permutation_of(inner), permutation_of(view)))
        else:
            dims = labelled(dims_of(view.outputs[0]) or ())
            source = builder.variant(view, [source, *view.inputs[1:]], dims=dims)
    return source
