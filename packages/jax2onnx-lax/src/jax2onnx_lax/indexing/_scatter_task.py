"""`ScatterTask`: any scatter of XLA, brought to single start indices along some axes of the operand."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np
from jax.lax import GatherScatterMode, ScatterDimensionNumbers
from jax2onnx_core import Context, Dim, Value
from jax2onnx_graph.build.builder import DtypeLike

from jax2onnx_lax.dtypes import is_float
from jax2onnx_lax.indexing._generated_arrays import zeros
from jax2onnx_lax.indexing._index_arrays import unstack_indices
from jax2onnx_lax.indexing._named_axes import AxisName, NamedArray, axes_of, rearrange
from jax2onnx_lax.indexing._start_indices import (
    StartIndex,
    is_always_in_range,
    is_promise_checked,
    resolve_out_of_bounds,
    window_positions,
)
from jax2onnx_lax.monoids import MONOIDS

__all__ = ["ScatterTask", "may_drop", "may_move", "neutralise", "over_places", "prepare", "resolve_starts"]

CLIP, DROP = GatherScatterMode.CLIP, GatherScatterMode.FILL_OR_DROP
PROMISE = GatherScatterMode.PROMISE_IN_BOUNDS


@dataclasses.dataclass(frozen=True)
class ScatterTask:
    """A scatter in the form that `lower_task` lowers.

    Attributes:
      x: the operand.
      updates: its windows, with names for the axes of the batch and the operand axes that windows have.
      starts: where windows start, for the indexed axes of which that matters, sorted by axis.
      batching: operand axis → the batch name that it follows.
      batch_rank: the number of axes of the batch.
      is_single: whether the batch has one element.
      mode: the treatment of indices out of range; PROMISE leaves them to an operator that refuses them.
      reduction: ONNX's name for how updates are combined with the operand; "none" replaces.
      valid: which updates count, over the batch; None for all.
    """

    x: Value
    updates: NamedArray
    starts: tuple[StartIndex, ...]
    batching: Mapping[int, AxisName]
    batch_rank: int
    is_single: bool
    mode: GatherScatterMode
    reduction: str
    valid: Value | None = None

    @property
    def checked_mode(self) -> GatherScatterMode:
        """The mode for indices that no operator checks: a broken promise drops the update, as XLA's CPU backend does."""
        return CLIP if self.mode == CLIP else DROP

    @property
    def batch(self) -> tuple[AxisName, ...]:
        """The names of the batch."""
        return tuple(("batch", i) for i in range(self.batch_rank))

    @property
    def windows(self) -> tuple[AxisName, ...]:
        """The names of windows along indexed axes."""
        return tuple(("axis", s.axis) for s in self.starts if ("axis", s.axis) in self.updates.axis_names)

    @property
    def places(self) -> tuple[AxisName, ...]:
        """The names that positions along the indexed axes vary over."""
        return (*self.batch, *self.windows)

    @property
    def free(self) -> tuple[AxisName, ...]:
        """The names of axes that every update covers."""
        return tuple(sorted(axis_name for axis_name in self.updates.axis_names if axis_name not in self.places))

    @property
    def reduction_attribute(self) -> str | None:
        """The attribute `reduction` of the operators; None leaves it out."""
        return None if self.reduction == "none" else self.reduction


# ---------------------------------------------------------------------------------------- preparation


def prepare(
    ctx: Context, x: Value, indices: Value, updates: Value, numbers: ScatterDimensionNumbers, mode: GatherScatterMode,
    reduction: str,
) -> ScatterTask:  # fmt: skip
    """Bring the operands of a scatter primitive into the form of a task.

    The promise of indices in range is believed of updates that replace, where it spares a copy of the operand, and
    which have it only if their author asks for it. Additions have it as the derivative of `x[i]`: there it says nothing.

    Args:
      ctx: the context of the rule.
      x: the operand.
      indices: int32 or int64, [*batch, k].
      updates: the updates, in the layout that `numbers` says.
      numbers: the dimension numbers of the scatter.
      mode: the treatment of indices out of range.
      reduction: ONNX's name for how updates are combined with the operand: "none", "add", "mul", "min" or "max".
    """
    dims, batch = ctx.known_dims(x), ctx.known_dims(indices)[:-1]
    axis_names = _update_axis_names(len(dims), len(ctx.known_dims(updates)), numbers)
    batched = zip(numbers.operand_batching_dims, numbers.scatter_indices_batching_dims, strict=True)
    batching: dict[int, AxisName] = {d: ("batch", i) for d, i in batched}
    is_single = all(size == 1 for size in batch)
    if mode == PROMISE and reduction != "none":
        mode = DROP
    task = ScatterTask(x, NamedArray(updates, axis_names), (), batching, len(batch), is_single, mode, reduction)
    sizes = dict(zip(axis_names, ctx.known_dims(updates), strict=True))
    indexed = numbers.scatter_dims_to_operand_dims
    for axis, value in zip(indexed, unstack_indices(ctx, indices, len(indexed)), strict=True):
        task = _add_start(ctx, task, StartIndex(axis, sizes.get(("axis", axis), 1), dims[axis], value))
    for axis in sorted(set(range(len(dims))) - set(indexed) - set(batching)):
        size = sizes.get(("axis", axis), 1)
        if size != dims[axis]:
            task = _with_start(task, StartIndex(axis, size, dims[axis], zeros(ctx, np.int32, batch)))
    return _restore_inserted(ctx, _drop_single_windows(ctx, task))


def _update_axis_names(operand_rank: int, update_rank: int, numbers: ScatterDimensionNumbers) -> tuple[AxisName, ...]:
    hidden = {*numbers.inserted_window_dims, *numbers.operand_batching_dims}
    axes = iter(d for d in range(operand_rank) if d not in hidden)
    batch, windows = iter(range(update_rank)), numbers.update_window_dims
    return tuple(("axis", next(axes)) if i in windows else ("batch", next(batch)) for i in range(update_rank))


def _add_start(ctx: Context, task: ScatterTask, start: StartIndex) -> ScatterTask:
    """The task with one more start index; along an axis that the window fills it has only to be checked."""
    if start.size != start.extent:
        return _with_start(task, start)
    if task.checked_mode == DROP:
        return _with_valid(ctx, task, resolve_out_of_bounds(ctx, start, DROP, native=False)[1])
    return task


def _with_start(task: ScatterTask, start: StartIndex) -> ScatterTask:
    return dataclasses.replace(task, starts=tuple(sorted((*task.starts, start), key=lambda s: s.axis)))


def _with_valid(ctx: Context, task: ScatterTask, valid: Value | None) -> ScatterTask:
    """The task with a further condition on the updates that count."""
    if valid is None:
        return task
    return dataclasses.replace(task, valid=valid if task.valid is None else ctx.op.And(task.valid, valid))


def _drop_single_windows(ctx: Context, task: ScatterTask) -> ScatterTask:
    """Windows of size 1 along indexed axes are single positions: their updates need no axis for them."""
    sizes = dict(zip(task.updates.axis_names, ctx.known_dims(task.updates.value), strict=True))
    return dataclasses.replace(task, updates=task.updates.without(ctx, [w for w in task.windows if sizes[w] == 1]))


def _restore_inserted(ctx: Context, task: ScatterTask) -> ScatterTask:
    """Operand axes of size 1 that updates do not have, and that are neither indexed nor batched, are added to them."""
    axis_names = task.updates.axis_names
    present = {*axes_of(axis_names), *(start.axis for start in task.starts), *task.batching}
    missing = [d for d in range(len(ctx.known_dims(task.x))) if d not in present]
    value = ctx.unsqueeze(task.updates.value, range(len(axis_names), len(axis_names) + len(missing)))
    return dataclasses.replace(task, updates=NamedArray(value, (*axis_names, *(("axis", d) for d in missing))))


# ---------------------------------------------------------------------------------------- out of range


def resolve_starts(ctx: Context, task: ScatterTask, *, native: bool = True) -> tuple[ScatterTask, list[Value]]:
    """Bring the start indices of a scatter into range.

    Args:
      ctx: the context of the rule.
      task: the scatter.
      native: whether the operator itself counts negative indices from the end.

    Returns:
      The task, with the updates whose index was out of range noted in `valid`; the indices of every start.
    """
    indices = []
    for start in task.starts:
        mode = task.mode if native and is_promise_checked(ctx, start) else task.checked_mode
        index, valid = resolve_out_of_bounds(ctx, start, mode, native=native)
        task = _with_valid(ctx, task, valid)
        indices.append(index)
    return task, indices


def may_drop(ctx: Context, task: ScatterTask, start: StartIndex) -> bool:
    """Whether an index of a start can be out of range, so that its updates are ignored.

    Args:
      ctx: the context of the rule.
      task: the scatter.
      start: one of its starts.
    """
    return task.checked_mode == DROP and may_move(ctx, task, start)


def may_move(ctx: Context, task: ScatterTask, start: StartIndex) -> bool:
    """Whether an index of a start can be out of range, so that it is another one that an operator is given.

    Args:
      ctx: the context of the rule.
      task: the scatter.
      start: one of its starts.
    """
    if is_always_in_range(ctx, start):
        return False
    return task.mode != PROMISE or not is_promise_checked(ctx, start)


def neutralise(ctx: Context, task: ScatterTask) -> ScatterTask:
    """The task with updates out of range replaced by the neutral element of the reduction."""
    if task.valid is None or task.reduction == "none":
        return task
    updates, axis_names = task.updates.value, task.updates.axis_names
    neutral = ctx.constant(_neutral(task.reduction, ctx.dtype(updates)), like=updates)
    value = ctx.op.Where(_mask(ctx, task, task.valid), updates, neutral)
    return dataclasses.replace(task, updates=NamedArray(value, axis_names), valid=None)


def _mask(ctx: Context, task: ScatterTask, valid: Value) -> Value:
    """`valid` so that it broadcasts with the updates."""
    if not task.batch_rank:
        return valid
    axis_names = task.updates.axis_names
    mask = rearrange(ctx, valid, task.batch, [axis_name for axis_name in axis_names if axis_name[0] == "batch"])
    return ctx.unsqueeze(mask, [i for i, (kind, _) in enumerate(axis_names) if kind == "axis"])


def _neutral(reduction: str, dtype: DtypeLike) -> np.generic:
    """The x for which `reduction(y, x)` is y for every y: -0.0 in sums, which keeps -0.0."""
    identity = MONOIDS[reduction].identity(dtype)
    return np.negative(identity) if reduction == "add" and is_float(dtype) else identity


def over_places(ctx: Context, task: ScatterTask, value: Value, start: StartIndex | None = None) -> Value:
    """Broadcast a value over the batch of a scatter to `task.places`.

    Args:
      ctx: the context of the rule.
      task: the scatter.
      value: an array with the shape of the batch.
      start: the start whose indices `value` is, to which the offsets in its window are added; None for another value.
    """
    axis_name = None if start is None else ("axis", start.axis)
    window = axis_name if axis_name in task.windows else None
    size: Dim = 1 if start is None else start.size
    return window_positions(ctx, value, task.places, task.batch_rank, window, size)
