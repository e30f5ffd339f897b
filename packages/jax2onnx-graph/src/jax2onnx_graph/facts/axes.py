"""The axes that a node names, by an attribute or an operand."""

from __future__ import annotations

import numpy as np

from jax2onnx_graph._ir import ir
from jax2onnx_graph.facts.operators import facts_of
from jax2onnx_graph.facts.values import dims_of, known, operand

__all__ = ["axis_of", "known_operand", "named_axes", "rank_of", "reduced_axes"]


def rank_of(value: ir.Value | None) -> int | None:
    """The number of axes of `value`; None where it is unknown."""
    dims = dims_of(value)
    return None if dims is None else len(dims)


def known_operand(node: ir.Node, index: int) -> np.ndarray | None:
    """The small constant that an operand of `node` is; None for another value, and for one that is left out."""
    return known(operand(node, index))


def axis_of(node: ir.Node, rank: int) -> int:
    """The axis that the attribute `axis` names, or its default, counted from the first of `rank`."""
    axis = node.attributes.get_int("axis", facts_of(node.op_type).axis or 0)
    return axis + rank if axis < 0 else axis


def named_axes(node: ir.Node, rank: int) -> list[int] | None:
    """The axes that the node's operand names, counted from the first; None where it names none, or not constantly."""
    facts = facts_of(node.op_type)
    index = facts.axes_input
    if index is None:
        return None
    axes = known_operand(node, index)
    if node.op_type == "Slice" and (index >= len(node.inputs) or node.inputs[index] is None):
        starts = known_operand(node, 1)
        dims = dims_of(node.inputs[1])
        count = len(starts) if starts is not None else dims[0] if dims else None
        axes = np.arange(count) if isinstance(count, int) else None
    if facts.reduces and axes is not None and not axes.size:  # all of them, or none
        return [] if node.attributes.get_int("noop_with_empty_axes", 0) else list(range(rank))
    return None if axes is None else [int(axis) % rank for axis in axes.reshape(-1)]


def reduced_axes(node: ir.Node) -> list[int] | None:
    """The axes that a node reduces, counted from the first, as far as they are known; None for other nodes."""
    facts, dims = facts_of(node.op_type), dims_of(node.inputs[0]) if node.inputs else None
    if not facts.reduces or dims is None or len(node.outputs) != 1 or "axes" in node.attributes:
        return None
    if facts.axis is not None:
        return [axis_of(node, len(dims))]
    index = facts.axes_input
    if index is not None and (index >= len(node.inputs) or node.inputs[index] is None):
        return None if node.attributes.get_int("noop_with_empty_axes", 0) == 1 else [*range(len(dims))]
    return named_axes(node, len(dims)) or None
