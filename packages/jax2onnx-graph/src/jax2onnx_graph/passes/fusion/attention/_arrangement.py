"""Arranging the axes of a value in another order and in other groups, by the fewest views and transposes."""

from __future__ import annotations

__all__ = ["Move", "Place", "arranged", "arrangement", "cheapest", "cost", "cost_of"]

import dataclasses
import itertools
import math
from collections.abc import Sequence

from jax2onnx_graph._ir import ir
from jax2onnx_graph.facts.values import LabelledDim, dims_of
from jax2onnx_graph.passes.fusion.attention._axes import Axes, Axis, UnreadableError, resolved, size_of
from jax2onnx_graph.passes.structural.merge_reshapes import view_of
from jax2onnx_graph.rewrite.editor import InsertionPoint, labelled


@dataclasses.dataclass(frozen=True)
class Move:
    """A node on the way to an arrangement.

    Attributes:
      op_type: "Transpose", or an operator that makes a view.
      argument: the permutation, or the int64 operand of the view.
      dims: the dimensions of the result.
    """

    op_type: str
    argument: list[int]
    dims: tuple[LabelledDim, ...]


@dataclasses.dataclass(frozen=True)
class Place:
    """A value on the way to an operand.

    Attributes:
      value: the value.
      axes: its axes.
      factor: by how much it is multiplied from here on.
      cost: what was computed before, and for this alone.
    """

    value: ir.Value
    axes: Axes
    factor: float
    cost: int


def cost_of(op_type: str) -> int:
    """What an operator on the way to an operand costs, relative to others."""
    return {"Transpose": 100, "Reshape": 1, "Squeeze": 1, "Unsqueeze": 1, "Flatten": 1}.get(op_type, 200)


def cost(place: Place, target: Axes) -> float:
    """What it takes to have a place with the axes `target`, infinite if that is impossible."""
    try:
        moves = arrangement(place.value, place.axes, target)
    except UnreadableError:
        return math.inf
    return place.cost + sum(cost_of(move.op_type) for move in moves)


def cheapest(places: Sequence[Place], target: Axes) -> Place:
    """The place from which the axes `target` cost least, the last of equally good ones."""
    return min(reversed(places), key=lambda place: cost(place, target))


def arrangement(value: ir.Value, axes: Axes, target: Axes) -> list[Move]:
    """The nodes that make of `value`, which has these axes, one with the axes `target`.

    Raises:
      UnreadableError: `target` has other axes, or a shape on the way cannot be written.
    """
    axes, target, dims = resolved(axes), resolved(target), dims_of(value)
    if dims is None:
        raise UnreadableError("a shape is not known")
    if axes == target:
        return []
    have, want = _joined(axes), _joined(target)
    if set(have) != set(want):
        raise UnreadableError("the axes are others")
    if have == want:
        return [_view(dims, target)]
    pieces = _pieces(axes, target)
    order = sorted(pieces, key=lambda piece: want.index(piece[0]))
    moves = [] if pieces == [group for group in axes if group] == list(axes) else [_view(dims, pieces)]
    moves.append(Move("Transpose", [pieces.index(piece) for piece in order], tuple(map(size_of, order))))
    return moves if order == list(target) else [*moves, _view(moves[-1].dims, target)]


def arranged(builder: InsertionPoint, value: ir.Value, axes: Axes, target: Axes) -> ir.Value:
    """`value`, which has these axes, with the axes `target`.

    Raises:
      UnreadableError: see `arrangement`.
    """
    for move in arrangement(value, axes, target):
        if move.op_type == "Transpose":
            value = builder.op.Transpose(value, perm=move.argument, dims=labelled(move.dims))
        else:
            value = builder.op(move.op_type, value, builder.ints(move.argument), dims=labelled(move.dims))
    return value


def _joined(axes: Sequence[Sequence[Axis]]) -> list[Axis]:
    return [axis for group in axes for axis in group]


def _pieces(axes: Axes, target: Axes) -> list[tuple[Axis, ...]]:
    """What moves as one: axes that are next to each other both in a group of `axes` and in one of `target`."""
    following = {one: other for group in target for one, other in itertools.pairwise(group)}
    pieces: list[tuple[Axis, ...]] = []
    for group in axes:
        for place, axis in enumerate(group):
            if place and following.get(group[place - 1]) is axis:
                pieces[-1] = (*pieces[-1], axis)
            else:
                pieces.append((axis,))
    return pieces


def _view(dims: Sequence[LabelledDim], axes: Sequence[Sequence[Axis]]) -> Move:
    sizes = tuple(map(size_of, axes))
    view = view_of(dims, sizes)
    if view is None:
        raise UnreadableError("a shape of several symbols")
    return Move(*view, sizes)
