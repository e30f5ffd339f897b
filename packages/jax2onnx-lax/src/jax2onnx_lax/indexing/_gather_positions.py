"""Single positions of an operand by Gather, GatherElements or GatherND, whichever fits plainly.

If none does, the indexed axes are merged into one and a Gather of linear indices is left (the reduction of a
general gather to a flat take is the usual one, e.g. in XLA's gather expander).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence

from jax.lax import GatherDimensionNumbers, GatherScatterMode
from jax2onnx_core import Context, Value

from jax2onnx_lax.indexing._named_axes import AxisName, NamedArray, are_adjacent, axes_of, rearrange
from jax2onnx_lax.indexing._negative_indices import before_normalisation
from jax2onnx_lax.indexing._start_indices import (
    StartIndex,
    linear_index,
    resolve_out_of_bounds,
    stack_indices,
    window_positions,
)
from jax2onnx_lax.integers._values import progression

__all__ = ["gather_along", "take_positions"]


@dataclasses.dataclass(frozen=True)
class _Positions:
    """The positions to take: `along` maps operand axes to indices that broadcast to the shape of `axis_names`.

    Operand axes in `batching` follow the name that they are mapped to.
    """

    along: Mapping[int, Value]
    batching: Mapping[int, AxisName]
    axis_names: tuple[AxisName, ...]

    @property
    def extra(self) -> list[AxisName]:
        """The names that no operand axis follows."""
        return [axis_name for axis_name in self.axis_names if axis_name not in self.batching.values()]


_Take = Callable[[Context, NamedArray, _Positions], NamedArray]


def take_positions(
    ctx: Context, operand: NamedArray, starts: Sequence[StartIndex], batch_rank: int, mode: GatherScatterMode,
    numbers: GatherDimensionNumbers,
) -> tuple[NamedArray, list[Value]]:  # fmt: skip
    """Take from an operand, for each position of the batch, the element or window at its start indices.

    Args:
      ctx: the context of the rule.
      operand: the array, its axes with names ("axis", d).
      starts: the start indices, one for each indexed axis.
      batch_rank: the number of axes of the batch.
      mode: the treatment of indices out of range.
      numbers: the dimension numbers of the gather.

    Returns:
      The result, whose batched and indexed axes are replaced by those of the batch and of windows; and for each of
      the start indices that may be out of range whether they are in range.
    """
    batched = zip(numbers.operand_batching_dims, numbers.start_indices_batching_dims, strict=True)
    batching: Mapping[int, AxisName] = {d: ("batch", i) for d, i in batched}
    if not starts:
        return _follow_batch(operand, batching), []
    windows = sorted(start.axis for start in starts if start.axis not in numbers.collapsed_slice_dims)
    axis_names: tuple[AxisName, ...] = (*(("batch", i) for i in range(batch_rank)), *(("axis", d) for d in windows))
    starts, batching = _paired(ctx, operand, starts, batching, axis_names)
    take = _choose(operand, _positions(starts, batching, axis_names))
    resolved = [resolve_out_of_bounds(ctx, start, mode, native=take is not _take_linear) for start in starts]
    along = {
        start.axis: window_positions(
            ctx, index, axis_names, batch_rank, ("axis", start.axis) if start.axis in windows else None, start.size
        )
        for start, (index, _) in zip(starts, resolved, strict=True)
    }
    result = take(ctx, operand, _Positions(along, batching, axis_names))
    return result, [valid for _, valid in resolved if valid is not None]


def _positions(
    starts: Sequence[StartIndex], batching: Mapping[int, AxisName], axis_names: tuple[AxisName, ...]
) -> _Positions:
    return _Positions({start.axis: start.value for start in starts}, batching, axis_names)


def _paired(
    ctx: Context,
    operand: NamedArray,
    starts: Sequence[StartIndex],
    batching: Mapping[int, AxisName],
    axis_names: tuple[AxisName, ...],
) -> tuple[Sequence[StartIndex], Mapping[int, AxisName]]:
    """The same positions, with an axis whose index counts the batch, as in `x[arange(n), i]`, as one that follows it."""
    if batching or len(starts) < 2 or axis_names != (("batch", 0),):
        return starts, batching
    for start in starts:
        index = before_normalisation(ctx, start.value, start.extent)
        found = progression(ctx, start.value if index is None else index)
        if found is not None and (found.start, found.step, found.count) == (0, 1, start.extent):
            others, followed = [other for other in starts if other is not start], {start.axis: axis_names[0]}
            take = _choose(operand, _positions(others, followed, axis_names))
            return (starts, batching) if take is _take_linear else (others, followed)
    return starts, batching


def gather_along(
    ctx: Context, operand: NamedArray, index: Value, axis_name: AxisName, new: Sequence[AxisName]
) -> NamedArray:
    """Gather along one axis.

    Args:
      ctx: the context of the rule.
      operand: the array.
      index: int32 or int64 indices into the axis.
      axis_name: the name of the axis, which the axes of `index` replace.
      new: the names of the axes of `index`.
    """
    place = operand.axis(axis_name)
    dims = ctx.known_dims(operand.value)
    dims = (*dims[:place], *ctx.known_dims(index), *dims[place + 1 :])
    value = ctx.op.Gather(operand.value, index, axis=place, dims=dims)
    return NamedArray(value, (*operand.axis_names[:place], *new, *operand.axis_names[place + 1 :]))


def _follow_batch(operand: NamedArray, batching: Mapping[int, AxisName]) -> NamedArray:
    """The operand with the names of the batch on its batched axes."""
    axis_names = [batching.get(i, (kind, i)) if kind == "axis" else (kind, i) for kind, i in operand.axis_names]
    return NamedArray(operand.value, tuple(axis_names))


def _choose(operand: NamedArray, positions: _Positions) -> _Take:
    """The plainest operator that can take these positions."""
    axes, batching, axis_names = axes_of(operand.axis_names), positions.batching, positions.axis_names
    indexed = list(positions.along)
    if len(indexed) == 1 and not batching:
        return _take_axis
    if len(indexed) == 1 and set(axes) == {*batching, *indexed} and len(positions.extra) <= 1:
        return _take_elements
    leading = [batching[d] for d in axes[: len(batching)] if d in batching]
    in_front = leading == list(axis_names[: len(batching)])
    following = set(axes[len(batching) : len(batching) + len(indexed)]) == set(indexed)
    if in_front and following and (len(indexed) == 1 or not axes_of(axis_names)):
        return _take_nd
    return _take_linear


def _take_axis(ctx: Context, operand: NamedArray, positions: _Positions) -> NamedArray:
    """Take along the only indexed axis, with no batched axes, by Gather."""
    ((axis, index),) = positions.along.items()
    return gather_along(ctx, operand, index, ("axis", axis), positions.axis_names)


def _take_elements(ctx: Context, operand: NamedArray, positions: _Positions) -> NamedArray:
    """Take along the only indexed axis, with all others batched, by GatherElements."""
    ((axis, index),) = positions.along.items()
    axis_names, added = positions.axis_names, not positions.extra
    axis_name = ("axis", axis) if added else positions.extra[0]
    if added:
        index, axis_names = ctx.unsqueeze(index, [len(axis_names)]), (*axis_names, axis_name)
    order = tuple(axis_name if d == axis else positions.batching[d] for d in axes_of(operand.axis_names))
    index = rearrange(ctx, index, axis_names, order)
    value = ctx.op.GatherElements(operand.value, index, axis=order.index(axis_name), dims=ctx.known_dims(index))
    taken = NamedArray(value, order)
    return taken.without(ctx, [axis_name]) if added else taken


def _take_nd(ctx: Context, operand: NamedArray, positions: _Positions) -> NamedArray:
    """The batched axes come first, then the indexed ones: GatherND."""
    batched, count, last = len(positions.batching), len(positions.along), len(positions.axis_names)
    axes = axes_of(operand.axis_names[batched : batched + count])
    index = stack_indices(ctx, [ctx.unsqueeze(positions.along[axis], [last]) for axis in axes], last)
    dims = (*ctx.known_dims(index)[:-1], *ctx.known_dims(operand.value)[batched + count :])
    value = ctx.op.GatherND(operand.value, index, batch_dims=batched or None, dims=dims)
    return NamedArray(value, (*positions.axis_names, *operand.axis_names[batched + count :]))


def _take_linear(ctx: Context, operand: NamedArray, positions: _Positions) -> NamedArray:
    """Merge the batched and the indexed axes into one and Gather along that."""
    merged = [("axis", d) for d in axes_of(operand.axis_names) if d in positions.along or d in positions.batching]
    if not are_adjacent(merged, operand.axis_names):
        wanted = (*merged, *(axis_name for axis_name in operand.axis_names if axis_name not in merged))
        operand = NamedArray(operand.in_order(ctx, wanted), wanted)
    dims, place = ctx.known_dims(operand.value), operand.axis(merged[0])
    after = place + len(merged)
    extents = dims[place:after]
    axes = axes_of(merged)
    index = linear_index(ctx, axes, extents, positions.along, positions.batching, positions.axis_names)
    flat = ctx.reshape(operand.value, (*dims[:place], math.prod(extents), *dims[after:]))
    axis_names = (*operand.axis_names[:place], merged[0], *operand.axis_names[after:])
    return gather_along(ctx, NamedArray(flat, axis_names), index, merged[0], positions.axis_names)
