"""The `scatter` family as ScatterND or ScatterElements.

ONNX Runtime's ScatterND writes its rows in parallel: with repeated indices its result is left to
chance, for reductions too. It is used where no index can occur twice. ScatterElements goes through
its updates one after another, as XLA's CPU backend does (the last update wins, sums are taken in
order), so it is used everywhere else, after the indexed axes have been merged into one.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.lax import GatherScatterMode
from jax2onnx_core import Complex, Rules

from jax2onnx_lax.indexing.index_analysis import all_different, as_dimension, columns, is_zero, to_index
from jax2onnx_lax.indexing.scatter_in_order import apply_in_order
from jax2onnx_lax.indexing.slicing import slice_along
from jax2onnx_lax.indexing.start_indices import (
    Column,
    Label,
    always_in_range,
    arrange,
    batch_index,
    clip,
    contiguous,
    keeps_promise,
    linear_index,
    settle,
    stacked,
)

__all__ = ["rules"]

rules = Rules()
rules.componentwise("scatter", "scatter-add", "scatter-sub")

# A row of zeros up to this many elements is stored; a larger one is computed when the model runs.
_STORED_ELEMENTS = 4096

DROP, CLIP, PROMISE = GatherScatterMode.FILL_OR_DROP, GatherScatterMode.CLIP, GatherScatterMode.PROMISE_IN_BOUNDS


@dataclasses.dataclass
class _Scatter:
    """One scatter on its way into a graph.

    `labels` names the axes of `updates`. `columns` are the indexed axes of which the index matters.
    `batching` maps operand axes to the batch label that they follow, `rank` is that of the batch.
    `valid` says which updates count, over the batch; None for all.
    """

    x: Any
    updates: Any
    labels: list[Label]
    columns: list[Column]
    batching: dict[int, Label]
    rank: int
    single: bool
    mode: GatherScatterMode
    reduction: str
    valid: Any = None

    @property
    def checked(self) -> GatherScatterMode:
        """What is done where the mode makes a promise that no operator would check: XLA's CPU backend drops."""
        return CLIP if self.mode == CLIP else DROP

    @property
    def batch(self) -> list[Label]:
        return [("batch", i) for i in range(self.rank)]

    @property
    def windows(self) -> list[Label]:
        """Axes of windows along indexed axes."""
        return [("axis", c.axis) for c in sorted(self.columns, key=lambda c: c.axis) if ("axis", c.axis) in self.labels]

    @property
    def places(self) -> list[Label]:
        """What the positions along the indexed axes vary over."""
        return [*self.batch, *self.windows]

    @property
    def free(self) -> list[Label]:
        """Axes that every update covers."""
        return sorted(label for label in self.labels if label not in self.places)


# ---------------------------------------------------------------------------------------- the rules


@rules.lower("scatter")
def scatter(ctx: Any, x: Any, indices: Any, updates: Any, *, update_jaxpr: Any = None, **params: Any) -> Any:
    if update_jaxpr is not None:
        ctx.decline("each element is computed by a function of its own")
    return _lower(ctx, x, indices, updates, "none", **params)


@rules.lower("scatter-add")
def scatter_add(ctx: Any, x: Any, indices: Any, updates: Any, **params: Any) -> Any:
    return _lower(ctx, x, indices, updates, "add", **params)


@rules.lower("scatter-sub")
def scatter_sub(ctx: Any, x: Any, indices: Any, updates: Any, **params: Any) -> Any:
    zero = ctx.constant(0, like=updates)
    signed = not jnp.issubdtype(ctx.dtype(updates), np.unsignedinteger)
    updates = ctx.op.Neg(updates) if signed else ctx.op.Sub(zero, updates)
    return _lower(ctx, x, indices, updates, "add", **params)


@rules.lower("scatter-mul")
def scatter_mul(ctx: Any, x: Any, indices: Any, updates: Any, **params: Any) -> Any:
    return _lower(ctx, x, indices, updates, "mul", **params)


@rules.lower("scatter-max", "scatter-min")
def scatter_extremum(ctx: Any, x: Any, indices: Any, updates: Any, **params: Any) -> Any:
    reduction = ctx.primitive.removeprefix("scatter-")
    if ctx.dtype(x) == np.dtype(bool):
        return _on_bytes(ctx, x, indices, updates, reduction, params)
    result = _lower(ctx, x, indices, updates, reduction, **params)
    if not jnp.issubdtype(ctx.dtype(x), np.floating):
        return result
    # ONNX Runtime's comparison forgets a NaN as soon as a number follows: add the NaNs again (-0 changes nothing).
    nans = [ctx.op.Where(ctx.op.IsNaN(v), v, ctx.constant(-0.0, like=v)) for v in (x, updates)]
    return ctx.op.Add(result, _lower(ctx, nans[0], indices, nans[1], "add", **params))


def _on_bytes(ctx: Any, x: Any, indices: Any, updates: Any, reduction: str, params: dict[str, Any]) -> Any:
    """Of booleans: the runtime's kernels compare numbers."""
    as_bytes = [ctx.cast(v, np.dtype(np.uint8)) for v in (x, updates)]
    return ctx.cast(_lower(ctx, as_bytes[0], indices, as_bytes[1], reduction, **params), np.dtype(bool))


def _lower(
    ctx: Any, x: Any, indices: Any, updates: Any, reduction: str, *, dimension_numbers: Any, mode: Any,
    unique_indices: bool = False, **_: Any,
) -> Any:  # fmt: skip
    if any(_is(size, 0) for size in (*ctx.dims(updates), *ctx.dims(x))):
        return x
    mode = GatherScatterMode.from_any(mode)
    task = _prepare(ctx, x, to_index(ctx, indices), updates, dimension_numbers, mode, reduction)
    if not task.columns and not task.batching:
        return _cover(ctx, task)
    if _is_padding(ctx, task):
        return _pad(ctx, task)
    if _suits_nd(ctx, task, unique_indices):
        return _scatter_nd(ctx, task)
    return _scatter_elements(ctx, task) if _suits_elements(task) else _scatter_merged(ctx, task)


# ---------------------------------------------------------------------------------------- preparation


def _prepare(
    ctx: Any, x: Any, indices: Any, updates: Any, numbers: Any, mode: GatherScatterMode, reduction: str
) -> _Scatter:
    dims, sizes, batch = ctx.dims(x), ctx.dims(updates), ctx.dims(indices)[:-1]
    labels = _update_labels(len(dims), len(sizes), numbers)
    size_of = {axis: size for (kind, axis), size in zip(labels, sizes, strict=True) if kind == "axis"}
    batched = zip(numbers.operand_batching_dims, numbers.scatter_indices_batching_dims, strict=True)
    batching: dict[int, Label] = {d: ("batch", i) for d, i in batched}
    single = all(_is(size, 1) for size in batch)
    task = _Scatter(x, updates, labels, [], batching, len(batch), single, mode, reduction)
    for axis, value in zip(numbers.scatter_dims_to_operand_dims, columns(ctx, indices), strict=True):
        _add_column(ctx, task, Column(axis, size_of.get(axis, 1), dims[axis], value))
    start = ctx.broadcast(ctx.constant(np.zeros([1] * len(batch), np.int32)), batch)
    for axis in set(range(len(dims))) - set(numbers.scatter_dims_to_operand_dims) - set(batching):
        if not _is(size_of.get(axis, 1), dims[axis]):
            task.columns.append(Column(axis, size_of.get(axis, 1), dims[axis], start))
    _drop_ones(ctx, task)
    return task


def _update_labels(operand_rank: int, update_rank: int, numbers: Any) -> list[Label]:
    hidden = {*numbers.inserted_window_dims, *numbers.operand_batching_dims}
    axes = iter(d for d in range(operand_rank) if d not in hidden)
    batch = iter(range(update_rank))
    return [("axis", next(axes)) if i in numbers.update_window_dims else ("batch", next(batch)) for i in range(update_rank)]


def _add_column(ctx: Any, task: _Scatter, column: Column) -> None:
    """An index along an axis that the window fills has only to be checked, the others are kept."""
    if not _is(column.size, column.extent):
        task.columns.append(column)
    elif task.checked == DROP:
        _require(ctx, task, settle(ctx, column, DROP, native=False)[1])


def _require(ctx: Any, task: _Scatter, valid: Any) -> None:
    if valid is not None:
        task.valid = valid if task.valid is None else ctx.op.And(task.valid, valid)


def _drop_ones(ctx: Any, task: _Scatter) -> None:
    """Windows of size 1 along indexed axes are single positions; inserted axes of size 1 get their axis back."""
    indexed = {c.axis for c in task.columns}
    gone = [i for i, label in enumerate(task.labels) if label[0] == "axis" and label[1] in indexed]
    gone = [i for i in gone if _is(ctx.dims(task.updates)[i], 1)]
    task.updates = ctx.squeeze(task.updates, gone)
    task.labels = [label for i, label in enumerate(task.labels) if i not in gone]
    present = {axis for kind, axis in task.labels if kind == "axis"} | indexed | set(task.batching)
    missing = [d for d in range(len(ctx.dims(task.x))) if d not in present]
    if missing:
        rank = len(task.labels)
        task.updates = ctx.unsqueeze(task.updates, list(range(rank, rank + len(missing))))
        task.labels += [("axis", d) for d in missing]


def _is(dim: Any, number: Any) -> bool:
    return bool(dim == number)


# ---------------------------------------------------------------------------------------- out of range


def _settle_all(ctx: Any, task: _Scatter, *, native: bool = True) -> list[Any]:
    """The start of every column; what was out of range is noted in `task.valid`."""
    starts = []
    for column in task.columns:
        mode = task.mode if native and keeps_promise(ctx, column) else task.checked
        start, valid = settle(ctx, column, mode, native=native)
        _require(ctx, task, valid)
        starts.append(start)
    return starts


def _may_drop(ctx: Any, task: _Scatter, column: Column) -> bool:
    """Can there be an index that must be ignored?"""
    if task.checked != DROP or always_in_range(ctx, column):
        return False
    return task.mode == DROP or not keeps_promise(ctx, column)


def _neutralise(ctx: Any, task: _Scatter) -> None:
    """Replace unwanted updates of a reduction by what changes nothing."""
    if task.valid is None or task.reduction == "none":
        return
    neutral = ctx.constant(_neutral(task.reduction, ctx.dtype(task.updates)), like=task.updates)
    task.updates = ctx.op.Where(_mask(ctx, task), task.updates, neutral)
    task.valid = None


def _mask(ctx: Any, task: _Scatter) -> Any:
    """`task.valid` so that it broadcasts with the updates."""
    if not task.rank:
        return task.valid
    order = [label for label in task.labels if label[0] == "batch"]
    mask = arrange(ctx, task.valid, task.batch, order)
    return ctx.unsqueeze(mask, [i for i, (kind, _) in enumerate(task.labels) if kind == "axis"])


def _neutral(reduction: str, dtype: np.dtype) -> Any:
    """The x for which `reduction(y, x)` is y for every y."""
    floating = jnp.issubdtype(dtype, np.floating)
    if reduction == "add":
        return -0.0 if floating else 0
    if reduction == "mul":
        return 1
    if floating:
        return -np.inf if reduction == "max" else np.inf
    limits = jnp.iinfo(dtype)
    return limits.min if reduction == "max" else limits.max


# ---------------------------------------------------------------------------------------- operators


def _cover(ctx: Any, task: _Scatter) -> Any:
    """Every update covers the whole operand: the operand becomes the only row of a larger one."""
    if task.single and task.reduction == "none" and task.valid is None:
        updates = ctx.squeeze(task.updates, [i for i, (kind, _) in enumerate(task.labels) if kind == "batch"])
        kept = [label for label in task.labels if label[0] == "axis"]
        return arrange(ctx, updates, kept, sorted(kept))
    dims = ctx.dims(task.x)
    start = ctx.constant(np.zeros([1] * task.rank, np.int32))
    labels = [(kind, i + 1) if kind == "axis" else (kind, i) for kind, i in task.labels]
    x = ctx.unsqueeze(task.x, [0])
    row = dataclasses.replace(task, x=x, labels=labels, columns=[Column(0, 1, 1, start)])
    return ctx.reshape(_scatter_merged(ctx, row), dims)


def _is_padding(ctx: Any, task: _Scatter) -> bool:
    """Is one window at a place known at export put into zeros? The gradient of a slice is."""
    if task.reduction not in ("none", "add") or not task.single or task.batching or task.valid is not None:
        return False
    if any(_may_drop(ctx, task, c) and task.mode != PROMISE for c in task.columns):
        return False
    return all(as_dimension(ctx, c.value) is not None for c in task.columns) and is_zero(ctx, task.x)


def _pad(ctx: Any, task: _Scatter) -> Any:
    dims = ctx.dims(task.x)
    updates = ctx.squeeze(task.updates, [i for i, (kind, _) in enumerate(task.labels) if kind == "batch"])
    kept = [label for label in task.labels if label[0] == "axis"]
    updates = arrange(ctx, updates, kept, sorted(kept))
    updates = ctx.unsqueeze(updates, [d for d in range(len(dims)) if ("axis", d) not in kept])
    starts = {c.axis: as_dimension(ctx, c.value) for c in task.columns}
    before = [starts.get(d, 0) for d in range(len(dims))]
    after = [n - start - size for n, start, size in zip(dims, before, ctx.dims(updates), strict=True)]
    return ctx.op.Pad(updates, ctx.shape((*before, *after)), dims=dims)


def _suits_nd(ctx: Any, task: _Scatter, unique: bool) -> bool:
    """The indexed axes come first, no place is written twice, and nothing has to be dropped."""
    task.columns.sort(key=lambda c: c.axis)
    if task.batching or [c.axis for c in task.columns] != list(range(len(task.columns))):
        return False
    if task.windows and (len(task.columns) > 1 or not task.single):
        return False
    if not (task.single or unique or any(all_different(ctx, c.value) for c in task.columns)):
        return False
    drops = task.valid is not None or any(_may_drop(ctx, task, c) for c in task.columns)
    return task.single or task.reduction != "none" or not drops


def _scatter_nd(ctx: Any, task: _Scatter) -> Any:
    starts = _settle_all(ctx, task)
    _neutralise(ctx, task)
    rank = len(task.places)
    parts = [
        ctx.unsqueeze(_over_places(ctx, task, start, column), [rank])
        for start, column in zip(starts, task.columns, strict=True)
    ]
    index = stacked(ctx, parts, rank)
    order = [*task.places, *task.free]
    updates = arrange(ctx, task.updates, task.labels, order)
    if task.valid is not None:
        current = ctx.op.GatherND(task.x, index, dims=ctx.dims(updates))
        mask = ctx.unsqueeze(task.valid, list(range(task.rank, len(order)))) if task.rank else task.valid
        updates = ctx.op.Where(mask, updates, current)
    reduction = None if task.reduction == "none" else task.reduction
    return ctx.op.ScatterND(task.x, index, updates, reduction=reduction, dims=ctx.dims(task.x))


def _suits_elements(task: _Scatter) -> bool:
    """One axis is indexed, all others are batched."""
    if len(task.columns) != 1 or task.free:
        return False
    return len([label for label in task.places if label not in task.batching.values()]) <= 1


def _scatter_elements(ctx: Any, task: _Scatter) -> Any:
    (column,) = task.columns
    places, updates, labels = task.places, task.updates, task.labels
    extra = [label for label in places if label not in task.batching.values()]
    sizes = dict(zip(labels, ctx.dims(updates), strict=True))
    once = not extra or _is(sizes[extra[0]], 1)
    index, valid, padded = _positions(ctx, task, column, once=once)
    updates = task.updates
    if not extra:
        rank = len(places)
        extra = [("axis", column.axis)]
        index, updates = ctx.unsqueeze(index, [rank]), ctx.unsqueeze(updates, [rank])
        valid = None if valid is None else ctx.unsqueeze(valid, [rank])
        places, labels = [*places, *extra], [*labels, *extra]
    order = [extra[0] if d == column.axis else task.batching[d] for d in range(len(ctx.dims(task.x)))]
    updates = arrange(ctx, updates, labels, order)
    index = arrange(ctx, index, places, order)
    valid = None if valid is None else arrange(ctx, valid, places, order)
    return _emit(ctx, task, task.x, column.axis, index, updates, valid, padded=padded, once=once)


def _scatter_merged(ctx: Any, task: _Scatter) -> Any:
    """The batched and the indexed axes become one axis, the batch and the windows become its positions."""
    axes = sorted({*task.batching, *(c.axis for c in task.columns)})
    rank = len(ctx.dims(task.x))
    order = list(range(rank))
    if not contiguous(order, axes):
        order = [*axes, *(d for d in order if d not in axes)]
    x = ctx.transpose(task.x, order)
    dims, place = ctx.dims(x), order.index(axes[0])
    after = place + len(axes)
    index, valid, padded = _merged_index(ctx, task, axes, dims[place:after])
    labels = [*(("axis", d) for d in order[:place]), *task.places, *(("axis", d) for d in order[after:])]
    updates = arrange(ctx, task.updates, task.labels, labels)
    sizes = ctx.dims(updates)
    places = sizes[place : place + len(task.places)]
    count, behind = math.prod(places), [1] * (rank - after)
    updates = ctx.reshape(updates, (*sizes[:place], count, *sizes[place + len(places) :]))
    flat = ctx.reshape(x, (*dims[:place], math.prod(dims[place:after]), *dims[after:]))
    index = ctx.reshape(ctx.broadcast(index, places), (count, *behind))
    valid = None if valid is None else ctx.reshape(ctx.broadcast(valid, places), (count, *behind))
    result = _emit(ctx, task, flat, place, index, updates, valid, padded=padded, once=_is(count, 1))
    return ctx.transpose(ctx.reshape(result, dims), list(np.argsort(order)))


def _merged_index(ctx: Any, task: _Scatter, axes: Sequence[int], extents: Sequence[Any]) -> tuple[Any, Any, bool]:
    if len(axes) == 1 and task.columns:
        return _positions(ctx, task, task.columns[0], once=task.single)
    starts = _settle_all(ctx, task, native=False)
    _neutralise(ctx, task)
    parts = {c.axis: _over_places(ctx, task, start, c) for c, start in zip(task.columns, starts, strict=True)}
    valid = None if task.valid is None else _over_places(ctx, task, task.valid)
    return linear_index(ctx, axes, extents, parts, task.batching, task.places), valid, False


def _positions(ctx: Any, task: _Scatter, column: Column, *, once: bool) -> tuple[Any, Any, bool]:
    """Indices along the one indexed axis over the places, which of them count, and do they need a row for the rest?"""
    padded = task.reduction == "none" and not once and _is(column.size, 1) and _may_drop(ctx, task, column)
    if padded:
        # Out of range goes to a row behind the last one: it is row n, and row -1 counted from its end.
        index = clip(ctx, column.value, -1, column.extent)
    else:
        (index,) = _settle_all(ctx, task)
    _neutralise(ctx, task)
    valid = None if task.valid is None else _over_places(ctx, task, task.valid)
    return _over_places(ctx, task, index, column), valid, padded


def _over_places(ctx: Any, task: _Scatter, value: Any, column: Column | None = None) -> Any:
    """A value over the batch as one over the batch and the windows; the offsets in its window added to a start."""
    label = None if column is None else ("axis", column.axis)
    window = label if label in task.windows else None
    return batch_index(ctx, value, task.places, task.rank, window, 1 if column is None else column.size)


def _emit(
    ctx: Any, task: _Scatter, x: Any, axis: int, index: Any, updates: Any, valid: Any, *, padded: bool, once: bool
) -> Any:
    """ScatterElements along `axis`; index and valid broadcast to the updates, of which the valid ones count.

    With `once`, no row along the axis is written more than once. `padded` says that some indices
    point to a row behind the last.
    """
    dims, sizes = ctx.dims(x), ctx.dims(updates)
    if valid is not None and not once:
        index, padded = ctx.op.Where(valid, index, _scalar(ctx, dims[axis], index)), True
    index = ctx.broadcast(index, sizes)
    if valid is not None and once:
        current = ctx.op.GatherElements(x, index, axis=axis, dims=sizes)
        updates = ctx.op.Where(valid, updates, current)
    if padded:
        x = ctx.concat([x, _row(ctx, x, axis)], axis)
    reduction = None if task.reduction == "none" else task.reduction
    result = ctx.op.ScatterElements(x, index, updates, axis=axis, reduction=reduction, dims=ctx.dims(x))
    return slice_along(ctx, result, [axis], [0], [dims[axis]], None, [dims[axis]]) if padded else result


def _row(ctx: Any, x: Any, axis: int) -> Any:
    """One more row, of zeros, for an array that may be empty."""
    dims = tuple(1 if d == axis else size for d, size in enumerate(ctx.dims(x)))
    static = all(isinstance(size, int) for size in dims) and math.prod(dims) <= _STORED_ELEMENTS
    return ctx.broadcast(ctx.constant(np.zeros(dims if static else (), ctx.dtype(x))), dims)


def _scalar(ctx: Any, dim: Any, like: Any) -> Any:
    return ctx.constant(dim, like=like) if isinstance(dim, int) else ctx.cast(ctx.dim(dim), ctx.dtype(like))


# ---------------------------------------------------------------------------------------- by other means


def _fold(primitive: Any) -> Any:
    """Evaluation by JAX, which the engine leaves to us because the parameters hold a jaxpr."""

    def fold(*arrays: np.ndarray, **params: Any) -> np.ndarray:
        with jax.ensure_compile_time_eval():
            return np.asarray(primitive.bind(*map(jnp.asarray, arrays), **params))

    return fold


for _primitive in (
    lax.scatter_p, lax.scatter_add_p, lax.scatter_sub_p, lax.scatter_mul_p, lax.scatter_min_p, lax.scatter_max_p
):  # fmt: skip
    rules.numpy_evaluator(_primitive.name, _fold(_primitive))


@rules.decompose("scatter")
def _scatter_by_function(x: Any, indices: Any, updates: Any, **params: Any) -> Any:
    """`x.at[...].apply(f)`, and whatever else combines elements by a function."""
    return apply_in_order(x, indices, updates, **params)


@rules.complex("scatter")
def _complex_scatter(x: Complex, indices: Any, updates: Complex, *, update_jaxpr: Any, **params: Any) -> Complex:
    if update_jaxpr is None:
        parts = zip(x, updates, strict=True)
        return Complex(*(lax.scatter_p.bind(a, indices, b, update_jaxpr=None, **params) for a, b in parts))
    whole = apply_in_order(lax.complex(*x), indices, lax.complex(*updates), update_jaxpr=update_jaxpr, **params)
    return Complex(lax.real(whole), lax.imag(whole))
