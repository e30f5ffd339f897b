"""A `ScatterTask` as ONNX operators: ScatterND, ScatterElements, Pad, or nothing but the updates.

ScatterND is used where no index can occur twice, or where the target applies updates in order: many run it in
parallel, and with repeated indices the result is left to chance. ScatterElements goes through its updates one after
another, as XLA's CPU backend does (the last update wins, sums are taken in order), so it is used everywhere else,
after the indexed axes have been merged into one.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence

import numpy as np
from jax2onnx_core import Context, Dim, Value
from jax2onnx_core.jaxprs import is_static

from jax2onnx_lax._compat import min_dim
from jax2onnx_lax.indexing._generated_arrays import zeros
from jax2onnx_lax.indexing._named_axes import AxisName, NamedArray, are_adjacent, axes_of, rearrange
from jax2onnx_lax.indexing._scatter_task import ScatterTask, may_drop, may_move, neutralise, over_places, resolve_starts
from jax2onnx_lax.indexing._start_indices import (
    StartIndex,
    as_value,
    clip,
    is_always_in_range,
    linear_index,
    stack_indices,
)
from jax2onnx_lax.indexing.slicing import replace_part, slice_along
from jax2onnx_lax.integers._values import all_different, as_dimension, is_zero

__all__ = ["lower_task"]

#: A window of at least an eighth of the operand is written by copies of what is around it.
_LEAST_PART = 8

#: The operators that combine such a window with what it covers.
_COMBINED = {"none": None, "add": "Add", "mul": "Mul"}


def lower_task(ctx: Context, task: ScatterTask, *, unique: bool) -> Value:
    """The result of a scatter, by the plainest operator.

    Args:
      ctx: the context of the rule.
      task: the scatter.
      unique: whether the program promises that no element is written twice.
    """
    open_axes = [s.axis for s in task.starts if not ctx.is_positive(s.extent) and not is_always_in_range(ctx, s)]
    if not open_axes:
        return _lower(ctx, task, unique=unique)
    filled = functools.reduce(functools.partial(_at_least_one, ctx), open_axes, task.x)
    dims, filled_dims = ctx.known_dims(task.x), ctx.known_dims(filled)
    # What goes to the first of no rows is cut off with the row.
    starts = tuple(dataclasses.replace(start, extent=filled_dims[start.axis]) for start in task.starts)
    result = _lower(ctx, dataclasses.replace(task, x=filled, starts=starts), unique=unique)
    kept = [dims[axis] for axis in open_axes]
    return slice_along(ctx, result, open_axes, [0] * len(kept), kept, None, kept)


def _at_least_one(ctx: Context, x: Value, axis: int) -> Value:
    """`x`, with a row of zeros along `axis` if it has none: operators take no index of an axis without elements."""
    dims = list(ctx.known_dims(x))
    dims[axis] = 1 - min_dim(dims[axis], 1)
    return ctx.concat([x, zeros(ctx, ctx.dtype(x), dims)], axis)


def _lower(ctx: Context, task: ScatterTask, *, unique: bool) -> Value:
    if not task.starts and not task.batching:
        return _update_whole_operand(ctx, task)
    places = _known_places(ctx, task)
    if places is not None and task.reduction in ("none", "add") and is_zero(ctx, task.x):
        return _pad(ctx, task, places)
    if _suits_nd(ctx, task, unique=unique):
        return _scatter_nd(ctx, task)
    if places is not None and task.reduction in _COMBINED and _is_large_part(task):
        return _replace(ctx, task, places)
    return _scatter_elements(ctx, task) if _suits_elements(task) else _scatter_merged(ctx, task)


# ---------------------------------------------------------------------------------------- without a scatter


def _update_whole_operand(ctx: Context, task: ScatterTask) -> Value:
    """Every update covers the whole operand, which becomes the only row of a larger one."""
    if task.is_single and task.reduction == "none" and task.valid is None:
        return _only_window(ctx, task)
    start = ctx.constant(np.zeros([1] * task.batch_rank, np.int32))
    axis_names = tuple((kind, i + 1) if kind == "axis" else (kind, i) for kind, i in task.updates.axis_names)
    row = dataclasses.replace(
        task, x=ctx.unsqueeze(task.x, [0]), updates=NamedArray(task.updates.value, axis_names),
        starts=(StartIndex(0, 1, 1, start),),
    )  # fmt: skip
    return ctx.reshape(_scatter_merged(ctx, row), ctx.known_dims(task.x))


def _only_window(ctx: Context, task: ScatterTask) -> Value:
    """The window of the only update, with all axes of the operand."""
    updates = task.updates.without(ctx, task.batch)
    order = sorted(updates.axis_names)
    axes = axes_of(order)
    return ctx.unsqueeze(updates.in_order(ctx, order), [d for d in range(len(ctx.known_dims(task.x))) if d not in axes])


def _known_places(ctx: Context, task: ScatterTask) -> dict[int, Dim] | None:
    """Where one window lies along the indexed axes; None where that is not known at export."""
    if not task.is_single or task.batching or task.valid is not None:
        return None
    found = {s.axis: as_dimension(ctx, s.value) for s in task.starts if is_always_in_range(ctx, s)}
    known = {axis: dim for axis, dim in found.items() if dim is not None}
    return known if len(known) == len(task.starts) else None


def _pad(ctx: Context, task: ScatterTask, places: Mapping[int, Dim]) -> Value:
    """A window among zeros, as in the gradient of a slice."""
    dims, window = ctx.known_dims(task.x), _only_window(ctx, task)
    before = [places.get(d, 0) for d in range(len(dims))]
    after = [n - start - size for n, start, size in zip(dims, before, ctx.known_dims(window), strict=True)]
    return ctx.op.Pad(window, ctx.shape((*before, *after)), dims=dims)


def _is_large_part(task: ScatterTask) -> bool:
    """Whether the window is so large that copies of what is around it take less time than to write it element by element."""
    dims = [dim for start in task.starts for dim in (start.extent, start.size)]
    if not all(map(is_static, dims)):
        return False
    return math.prod(dims[::2]) <= _LEAST_PART * math.prod(dims[1::2])


def _replace(ctx: Context, task: ScatterTask, places: Mapping[int, Dim]) -> Value:
    """A window between copies of what is around it."""
    window, operator = _only_window(ctx, task), _COMBINED[task.reduction]

    def replaced(x: Value, starts: Sequence[StartIndex]) -> Value:
        if not starts:
            return window if operator is None else ctx.op(operator, x, window)
        start, begin = starts[0], places[starts[0].axis]
        part = slice_along(ctx, x, [start.axis], [begin], [begin + start.size], None, [start.size])
        return replace_part(ctx, x, replaced(part, starts[1:]), start, begin)

    return replaced(task.x, task.starts)


# ---------------------------------------------------------------------------------------- ScatterND


def _suits_nd(ctx: Context, task: ScatterTask, *, unique: bool) -> bool:
    """The indexed axes come first, no place is written twice out of order, and nothing has to be dropped."""
    if task.batching or [start.axis for start in task.starts] != list(range(len(task.starts))):
        return False
    if task.windows and (len(task.starts) > 1 or not task.is_single):
        return False
    if not (task.is_single or _are_apart(ctx, task, unique=unique)):
        key = "ScatterND" if task.reduction == "none" else f"ScatterND_{task.reduction}"
        if not ctx.guarantees(key, ctx.dtype(task.x), "order"):
            return False
    if task.is_single or task.reduction != "none":
        return True
    return task.valid is None and not any(may_drop(ctx, task, start) for start in task.starts)


def _are_apart(ctx: Context, task: ScatterTask, *, unique: bool) -> bool:
    """Whether no two updates are of one place, even where they count for nothing."""
    fixed = [start for start in task.starts if not may_move(ctx, task, start)]
    if unique and task.valid is None and len(fixed) == len(task.starts):
        return True
    return any(all_different(ctx, start.value) for start in fixed)


def _scatter_nd(ctx: Context, task: ScatterTask) -> Value:
    task, indices = resolve_starts(ctx, task)
    task = neutralise(ctx, task)
    rank = len(task.places)
    parts = [
        ctx.unsqueeze(over_places(ctx, task, index, start), [rank])
        for index, start in zip(indices, task.starts, strict=True)
    ]
    index = stack_indices(ctx, parts, rank)
    order = (*task.places, *task.free)
    updates = task.updates.in_order(ctx, order)
    if task.valid is not None:
        current = ctx.op.GatherND(task.x, index, dims=ctx.known_dims(updates))
        mask = ctx.unsqueeze(task.valid, range(task.batch_rank, len(order))) if task.batch_rank else task.valid
        updates = ctx.op.Where(mask, updates, current)
    dims = ctx.known_dims(task.x)
    return ctx.op.ScatterND(task.x, index, updates, reduction=task.reduction_attribute, dims=dims)


# ---------------------------------------------------------------------------------------- ScatterElements


@dataclasses.dataclass(frozen=True)
class _Positions:
    """The positions of updates along one axis of the operand.

    Attributes:
      index: the positions, which broadcast to the updates.
      valid: which updates count, likewise; None for all.
      is_padded: whether some positions are in a row behind the last one.
      is_once: whether no row is written more than once.
    """

    index: Value
    valid: Value | None
    is_padded: bool
    is_once: bool

    def rearrange(self, ctx: Context, axis_names: Sequence[AxisName], wanted: Sequence[AxisName]) -> _Positions:
        """The positions with the axes `axis_names` in the order `wanted`."""
        index = rearrange(ctx, self.index, axis_names, wanted)
        valid = None if self.valid is None else rearrange(ctx, self.valid, axis_names, wanted)
        return dataclasses.replace(self, index=index, valid=valid)

    def flatten(self, ctx: Context, places: Sequence[Dim], dims: Sequence[Dim]) -> _Positions:
        """Expanded to `places`, then with the shape `dims`."""
        index = ctx.reshape(ctx.broadcast(self.index, places), dims)
        valid = None if self.valid is None else ctx.reshape(ctx.broadcast(self.valid, places), dims)
        return dataclasses.replace(self, index=index, valid=valid)


def _suits_elements(task: ScatterTask) -> bool:
    """Whether one axis is indexed and all others are batched, so that ScatterElements can write the updates."""
    return len(task.starts) == 1 and not task.free and len(_extra_places(task)) <= 1


def _extra_places(task: ScatterTask) -> list[AxisName]:
    """The names that positions vary over and that no axis of the operand follows."""
    return [axis_name for axis_name in task.places if axis_name not in task.batching.values()]


def _scatter_elements(ctx: Context, task: ScatterTask) -> Value:
    (start,) = task.starts
    extra = _extra_places(task)
    sizes = dict(zip(task.updates.axis_names, ctx.known_dims(task.updates.value), strict=True))
    task, positions = _positions_along(ctx, task, start, once=not extra or sizes[extra[0]] == 1)
    places, updates = task.places, task.updates
    if not extra:
        rank, axis_name = len(places), ("axis", start.axis)
        positions = dataclasses.replace(positions, index=ctx.unsqueeze(positions.index, [rank]))
        updates = NamedArray(ctx.unsqueeze(updates.value, [rank]), (*updates.axis_names, axis_name))
        if positions.valid is not None:
            positions = dataclasses.replace(positions, valid=ctx.unsqueeze(positions.valid, [rank]))
        places, extra = (*places, axis_name), [axis_name]
    rank = len(ctx.known_dims(task.x))
    order = [extra[0] if d == start.axis else task.batching[d] for d in range(rank)]
    value = updates.in_order(ctx, order)
    return _write(ctx, task, task.x, start.axis, value, positions.rearrange(ctx, places, order))


def _scatter_merged(ctx: Context, task: ScatterTask) -> Value:
    """The batched and the indexed axes become one axis, the batch and the windows become its positions."""
    axes = sorted({*task.batching, *(start.axis for start in task.starts)})
    rank = len(ctx.known_dims(task.x))
    order = list(range(rank))
    if not are_adjacent(axes, order):
        order = [*axes, *(d for d in order if d not in axes)]
    x = ctx.transpose(task.x, order)
    dims, place = ctx.known_dims(x), order.index(axes[0])
    after = place + len(axes)
    task, positions = _merged_positions(ctx, task, axes, dims[place:after])
    axis_names = [*(("axis", d) for d in order[:place]), *task.places, *(("axis", d) for d in order[after:])]
    updates = task.updates.in_order(ctx, axis_names)
    sizes, behind = ctx.known_dims(updates), place + len(task.places)
    places = sizes[place:behind]
    count = math.prod(places)
    updates = ctx.reshape(updates, (*sizes[:place], count, *sizes[behind:]))
    flat = ctx.reshape(x, (*dims[:place], math.prod(dims[place:after]), *dims[after:]))
    positions = positions.flatten(ctx, places, (count, *[1] * (rank - after)))
    positions = dataclasses.replace(positions, is_once=count == 1)
    result = _write(ctx, task, flat, place, updates, positions)
    return ctx.transpose(ctx.reshape(result, dims), [order.index(d) for d in range(rank)])


def _merged_positions(
    ctx: Context, task: ScatterTask, axes: Sequence[int], extents: Sequence[Dim]
) -> tuple[ScatterTask, _Positions]:
    """Positions along the merged `axes`, over the places of the task."""
    if len(axes) == 1 and task.starts:
        return _positions_along(ctx, task, task.starts[0], once=task.is_single)
    task, indices = resolve_starts(ctx, task, native=False)
    task = neutralise(ctx, task)
    parts = {s.axis: over_places(ctx, task, index, s) for s, index in zip(task.starts, indices, strict=True)}
    valid = None if task.valid is None else over_places(ctx, task, task.valid)
    index = linear_index(ctx, axes, extents, parts, task.batching, task.places)
    return task, _Positions(index, valid, is_padded=False, is_once=False)


def _positions_along(
    ctx: Context, task: ScatterTask, start: StartIndex, *, once: bool
) -> tuple[ScatterTask, _Positions]:
    """Positions along the one indexed axis, over the places of the task."""
    is_padded = task.reduction == "none" and not once and start.size == 1 and may_drop(ctx, task, start)
    if is_padded:
        # Out of range goes to a row behind the last one: it is row n, and row -1 counted from its end.
        index = clip(ctx, start.value, -1, start.extent)
    else:
        task, (index,) = resolve_starts(ctx, task)
    task = neutralise(ctx, task)
    valid = None if task.valid is None else over_places(ctx, task, task.valid)
    return task, _Positions(over_places(ctx, task, index, start), valid, is_padded, once)


def _write(ctx: Context, task: ScatterTask, x: Value, axis: int, updates: Value, positions: _Positions) -> Value:
    """ScatterElements of the valid updates along `axis` of `x`."""
    dims, sizes = ctx.known_dims(x), ctx.known_dims(updates)
    index, valid, is_padded = positions.index, positions.valid, positions.is_padded
    if valid is not None and not positions.is_once:
        index, is_padded = ctx.op.Where(valid, index, as_value(ctx, dims[axis], ctx.dtype(index))), True
    index = ctx.broadcast(index, sizes)
    if valid is not None and positions.is_once:
        current = ctx.op.GatherElements(x, index, axis=axis, dims=sizes)
        updates = ctx.op.Where(valid, updates, current)
    if is_padded:
        row = zeros(ctx, ctx.dtype(x), [1 if d == axis else size for d, size in enumerate(dims)])
        x = ctx.concat([x, row], axis)
    reduction = task.reduction_attribute
    result = ctx.op.ScatterElements(x, index, updates, axis=axis, reduction=reduction, dims=ctx.known_dims(x))
    return slice_along(ctx, result, [axis], [0], [dims[axis]], None, [dims[axis]]) if is_padded else result
