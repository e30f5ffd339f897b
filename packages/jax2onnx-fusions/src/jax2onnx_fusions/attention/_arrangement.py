"""`Arrangement`: the axes of a value in another order and in other groups, by the fewest views and transposes."""

from __future__ import annotations

__all__ = ["Arrangement", "Candidate", "Move", "cheapest", "cost_of", "moved", "moves_between"]

import dataclasses
import itertools
from collections.abc import Sequence

from jax2onnx_graph import ir
from jax2onnx_graph.facts.values import LabelledDim, dims_of
from jax2onnx_graph.passes.structural.merge_reshapes import view_of
from jax2onnx_graph.rewrite.editor import InsertionPoint, labelled

from jax2onnx_fusions._reasons import UnreadableError
from jax2onnx_fusions.attention._axes import Axes, Axis, resolved, size_of


@dataclasses.dataclass(frozen=True)
class Dimension:
    """The size of a value along an axis, which is read when the model runs."""

    value: ir.Value
    axis: int


@dataclasses.dataclass(frozen=True)
class Move:
    """A node on the way to an arrangement.

    Attributes:
      op_type: "Transpose", or an operator that makes a view.
      argument: the permutation, or the int64 operand of the view.
      dims: the dimensions of the result.
    """

    op_type: str
    argument: Sequence[int | Dimension]
    dims: tuple[LabelledDim, ...]


@dataclasses.dataclass(frozen=True)
class Candidate:
    """A value from which an operand can be made: a tensor, or one of the views and multiples on the way from it.

    Attributes:
      value: the value.
      axes: its axes.
      factor: by how much it is multiplied from here on.
      cost: the cost of the nodes that compute it, where nothing else needs them.
    """

    value: ir.Value
    axes: Axes
    factor: float
    cost: int


@dataclasses.dataclass(frozen=True)
class Arrangement:
    """The moves that make an operand of a candidate, with their cost and that of the candidate."""

    candidate: Candidate
    moves: Sequence[Move]
    cost: int


def cost_of(op_type: str) -> int:
    """The cost of an operator on the way to an operand, relative to others."""
    return {"Transpose": 100, "Reshape": 1, "Squeeze": 1, "Unsqueeze": 1, "Flatten": 1}.get(op_type, 200)


def cheapest(candidates: Sequence[Candidate], target: Axes, sized: Sequence[Candidate] = ()) -> Arrangement:
    """The arrangement with the axes `target` that costs least, from the last of equally good candidates; for `sized` see `moves_between`.

    Raises:
      UnreadableError: no candidate can be arranged like that.
    """
    best: Arrangement | None = None
    errors: list[UnreadableError] = []
    for candidate in reversed(candidates):
        if best is not None and candidate.cost >= best.cost:
            continue
        found = _arrangement(candidate, target, sized)
        if isinstance(found, UnreadableError):
            errors.append(found)
        elif best is None or found.cost < best.cost:
            best = found
    if best is None:
        raise errors[-1]
    return best


def _arrangement(candidate: Candidate, target: Axes, sized: Sequence[Candidate]) -> Arrangement | UnreadableError:
    dims = dims_of(candidate.value)
    if dims is None:
        return UnreadableError("a shape is not known, or a tensor is empty")
    try:
        moves = moves_between(dims, candidate.axes, target, sized)
    except UnreadableError as error:
        return error
    return Arrangement(candidate, moves, candidate.cost + sum(cost_of(move.op_type) for move in moves))


def moves_between(dims: Sequence[LabelledDim], axes: Axes, target: Axes, sized: Sequence[Candidate] = ()) -> list[Move]:
    """The nodes that make of a value one with the axes `target`.

    Args:
      dims: the dimensions of the value.
      axes: its axes.
      target: the same axes in another order, or grouped in another way.
      sized: values from which sizes may be read that the value itself does not tell.

    Raises:
      UnreadableError: `target` has other axes, or a shape on the way cannot be written.
    """
    axes, target = resolved(axes), resolved(target)
    if axes == target:
        return []
    have, want = _joined(axes), _joined(target)
    if set(have) != set(want):
        raise UnreadableError("an operand is repeated along axes along which the operator does not take it")
    if have == want:
        return [_view(dims, target, sized)]
    pieces = _pieces(axes, target)
    order = sorted(pieces, key=lambda piece: want.index(piece[0]))
    moves = [] if pieces == [group for group in axes if group] == list(axes) else [_view(dims, pieces, sized)]
    moves.append(Move("Transpose", [pieces.index(piece) for piece in order], tuple(map(size_of, order))))
    return moves if order == list(target) else [*moves, _view(moves[-1].dims, target, sized)]


def moved(builder: InsertionPoint, value: ir.Value, moves: Sequence[Move]) -> ir.Value:
    """`value` after these moves."""
    for move in moves:
        numbers = [number for number in move.argument if isinstance(number, int)]
        if move.op_type == "Transpose":
            value = builder.op.Transpose(value, perm=numbers, dims=labelled(move.dims))
        elif len(numbers) == len(move.argument):
            value = builder.op(move.op_type, value, builder.ints(numbers), dims=labelled(move.dims))
        else:
            # A size that is read may be 0, and that is no copy then.
            allowzero = None if -1 in numbers else 1
            shape = _shape(builder, move.argument)
            value = builder.op.Reshape(value, shape, dims=labelled(move.dims), allowzero=allowzero)
    return value


def _shape(builder: InsertionPoint, sizes: Sequence[int | Dimension]) -> ir.Value:
    parts = [
        builder.ints([size])
        if isinstance(size, int)
        else builder.op.Shape(size.value, start=size.axis, end=size.axis + 1)
        for size in sizes
    ]
    return builder.op.Concat(*parts, axis=0)


def _joined(axes: Sequence[Sequence[Axis]]) -> list[Axis]:
    return [axis for group in axes for axis in group]


def _pieces(axes: Axes, target: Axes) -> list[tuple[Axis, ...]]:
    """The axes that move as one: those that are next to each other both in a group of `axes` and in one of `target`."""
    following = {one: other for group in target for one, other in itertools.pairwise(group)}
    pieces: list[tuple[Axis, ...]] = []
    for group in axes:
        for index, axis in enumerate(group):
            if index and following.get(group[index - 1]) is axis:
                pieces[-1] = (*pieces[-1], axis)
            else:
                pieces.append((axis,))
    return pieces


def _view(dims: Sequence[LabelledDim], axes: Sequence[Sequence[Axis]], sized: Sequence[Candidate]) -> Move:
    sizes = tuple(map(size_of, axes))
    view = view_of(dims, sizes)
    if view is not None:
        return Move(*view, sizes)
    found = [size if isinstance(size, int) else _read(group, sized) for size, group in zip(sizes, axes, strict=True)]
    known = [-1 if size is None else size for size in found]
    if found.count(None) > (1 if sized else 0) or 0 in known:
        raise UnreadableError("a view would have to compute several symbolic dimensions")
    return Move("Reshape", known, sizes)


def _read(group: Sequence[Axis], sized: Sequence[Candidate]) -> Dimension | None:
    """An axis that consists of these, of one of the values; None where there is none."""
    places = ((one.value, axis) for one in sized for axis, own in enumerate(resolved(one.axes)) if own == tuple(group))
    found = next(places, None)
    return None if found is None else Dimension(*found)
