"""`slice`, `dynamic_slice` and `dynamic_update_slice`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
from jax.lax import GatherScatterMode
from jax2onnx_core import Rules

from jax2onnx_lax._compat import greatest, max_dim
from jax2onnx_lax.indexing.index_analysis import as_dimension, to_index
from jax2onnx_lax.indexing.start_indices import Column, Label, batch_index, counted, linear_index, settle

__all__ = ["from_end", "rules", "scatter_rows", "slice_along", "take_windows"]

rules = Rules()
rules.componentwise("slice", "dynamic_slice", "dynamic_update_slice")

INT64 = np.dtype(np.int64)
_TO_THE_END = 2**63 - 1


@rules.lower("slice")
def slice_(
    ctx: Any, x: Any, *, start_indices: Sequence[Any], limit_indices: Sequence[Any], strides: Any = None, **_: Any
) -> Any:
    dims = ctx.dims(x)
    steps = [1] * len(dims) if strides is None else list(strides)
    axes = [
        d
        for d, (start, limit, step) in enumerate(zip(start_indices, limit_indices, steps, strict=True))
        if not (_is(start, 0) and _is(limit, dims[d]) and (_is(step, 1) or _is(dims[d], 1)))
    ]
    pick = [[values[d] for d in axes] for values in (start_indices, limit_indices, steps, ctx.avals_out[0].shape)]
    return slice_along(ctx, x, axes, *pick)


@rules.numpy_evaluator("slice")
def _fold_slice(
    x: np.ndarray, *, start_indices: Sequence[int], limit_indices: Sequence[int], strides: Any = None, **_: Any
) -> np.ndarray:
    steps = [1] * x.ndim if strides is None else strides
    parts = zip(start_indices, limit_indices, steps, strict=True)
    return x[tuple(slice(int(start), int(limit), int(step)) for start, limit, step in parts)]


def slice_along(
    ctx: Any, x: Any, axes: Sequence[int], starts: Sequence[Any], ends: Sequence[Any], steps: Any, sizes: Sequence[Any]
) -> Any:
    """`x[..., start:end:step, ...]` along `axes`, `sizes` long; starts and ends are dimensions or values [1].

    Bounds at a fixed distance from the end of an axis are written as such, so that no shape arithmetic is needed.
    """
    if not axes:
        return x
    dims = ctx.dims(x)
    length = dict(zip(axes, sizes, strict=True))
    result = tuple(length.get(d, size) for d, size in enumerate(dims))
    starts = [from_end(start, dims[axis], 0) for axis, start in zip(axes, starts, strict=True)]
    ends = [from_end(end, dims[axis], _TO_THE_END) for axis, end in zip(axes, ends, strict=True)]
    inputs = [x, _vector(ctx, starts), _vector(ctx, ends), ctx.ints(list(axes))]
    if steps is not None and not all(_is(step, 1) for step in steps):
        inputs.append(_vector(ctx, steps))
    return ctx.op.Slice(*inputs, dims=result)


def from_end(bound: Any, extent: Any, at_end: int) -> Any:
    """A symbolic `extent - n` or `max(0, extent - n)` as `-n`, where Slice stops at 0 by itself."""
    if _is_value(bound) or isinstance(bound, int) or isinstance(extent, int):
        return bound
    distance = extent - bound
    if isinstance(distance, int):
        return bound if distance < 0 or (distance == 0 and not at_end) else -distance if distance else at_end
    limit = greatest(distance)
    cut = 0 < limit < _TO_THE_END and _is_cut(bound, extent - int(limit))
    return -int(limit) if cut else bound


def _window_end(start: Any, size: Any, extent: Any) -> Any:
    """`start + size`, or for a size of `max(0, extent - n - start)` the dimension `extent - n`."""
    rest = extent - start - size
    if isinstance(rest, int):
        return start + size
    limit = greatest(rest)
    cut = 0 <= limit < _TO_THE_END and _is_cut(size, extent - start - int(limit))
    return extent - int(limit) if cut else start + size


def _is_cut(dim: Any, whole: Any) -> bool:
    """Is `dim` the larger of 0 and `whole`? JAX tells their order apart."""
    return _is(dim, max_dim(0, whole)) or _is(dim, max_dim(whole, 0))


def _vector(ctx: Any, items: Sequence[Any]) -> Any:
    """Dimensions and values of shape [1] as one int64 vector."""
    if not any(_is_value(item) for item in items):
        return ctx.shape(tuple(items))
    return ctx.concat([ctx.cast(i, INT64) if _is_value(i) else ctx.shape((i,)) for i in items], 0)


def _is_value(item: Any) -> bool:
    return isinstance(item, ir.Value)


def _is(dim: Any, number: Any) -> bool:
    return bool(dim == number)


# ---------------------------------------------------------------------------------------- dynamic slices


@rules.lower("dynamic_slice")
def dynamic_slice(ctx: Any, x: Any, *starts: Any, slice_sizes: Sequence[Any], **_: Any) -> Any:
    windows: list[Column] = []
    ones: list[Column] = []
    for column in _partial(ctx, x, starts, slice_sizes):
        dimension = as_dimension(ctx, column.value)
        (ones if _is(column.size, 1) and dimension is None else windows).append(column)
    x = take_windows(ctx, x, [column.axis for column in windows], windows, GatherScatterMode.CLIP)[0]
    for column in ones:
        index, _valid = settle(ctx, column, GatherScatterMode.CLIP, native=True)
        dims = tuple(1 if d == column.axis else size for d, size in enumerate(ctx.dims(x)))
        x = ctx.op.Gather(x, ctx.unsqueeze(index, [0]), axis=column.axis, dims=dims)
    return x


def _partial(ctx: Any, x: Any, starts: Sequence[Any], sizes: Sequence[Any]) -> list[Column]:
    """The axes along which only a part of `x` is meant, with their starts as int32 or int64."""
    dims = ctx.dims(x)
    parts = [d for d in range(len(dims)) if not _is(sizes[d], dims[d])]
    return [Column(d, sizes[d], dims[d], to_index(ctx, starts[d])) for d in parts]


def take_windows(
    ctx: Any, x: Any, places: Sequence[int], windows: Sequence[Column], mode: GatherScatterMode
) -> tuple[Any, list[Any]]:
    """One Slice of `x` for columns with scalar starts, at axes `places`; and whether each start was in range."""
    starts, ends, valid = [], [], []
    for column in windows:
        start, ok = settle(ctx, column, mode, native=False)
        dimension = as_dimension(ctx, start)
        starts.append(ctx.cast(ctx.unsqueeze(start, [0]), INT64) if dimension is None else dimension)
        ends.append(_end(ctx, starts[-1], column))
        valid.append(ok)
    sizes = [column.size for column in windows]
    return slice_along(ctx, x, places, starts, ends, None, sizes), valid


def _end(ctx: Any, start: Any, column: Column) -> Any:
    if _is_value(start):
        return ctx.op.Add(start, ctx.shape((column.size,)))
    return _window_end(start, column.size, column.extent)


# ---------------------------------------------------------------------------------------- dynamic updates


@rules.lower("dynamic_update_slice")
def dynamic_update_slice(ctx: Any, x: Any, update: Any, *starts: Any, **_: Any) -> Any:
    if any(_is(size, 0) for size in ctx.dims(update)):
        return x
    parts = _partial(ctx, x, starts, ctx.dims(update))
    if not parts:
        return update
    if len(parts) > 1:
        return _update_block(ctx, x, update, parts)
    (column,) = parts
    scatters_tensor = ctx.opset >= 24 and column.axis > 0
    start, _valid = settle(ctx, column, GatherScatterMode.CLIP, native=not scatters_tensor)
    known = as_dimension(ctx, start)
    if known is not None:
        return _update_along(ctx, x, update, column, known)
    if scatters_tensor:
        rows = ctx.broadcast(ctx.cast(start, INT64), ctx.dims(x)[:1])
        return ctx.op.TensorScatter(x, update, rows, axis=column.axis, dims=ctx.dims(x))
    start = ctx.unsqueeze(start, [0])
    index = start if _is(column.size, 1) else ctx.op.Add(start, counted(ctx, column.size, ctx.dtype(start)))
    return scatter_rows(ctx, x, column.axis, index, update)


def _update_along(ctx: Any, x: Any, update: Any, column: Column, start: Any) -> Any:
    """`x` with `update` from the dimension `start` on, along one axis."""
    axis, extent = column.axis, column.extent
    end = start + column.size
    pieces = [update]
    if not _is(start, 0):
        pieces.insert(0, slice_along(ctx, x, [axis], [0], [start], None, [start]))
    if not _is(end, extent):
        pieces.append(slice_along(ctx, x, [axis], [end], [extent], None, [extent - end]))
    return ctx.concat(pieces, axis)


def scatter_rows(ctx: Any, x: Any, axis: int, index: Any, update: Any, reduction: str = "none") -> Any:
    """Put `update` [..., m, ...] at the positions `index` [m] along `axis` of `x`, one after another."""
    dims = ctx.dims(update)
    after = len(dims) - 1 - axis
    index = ctx.unsqueeze(index, list(range(1, after + 1))) if after else index
    index, reduction_ = ctx.broadcast(index, dims), None if reduction == "none" else reduction
    return ctx.op.ScatterElements(x, index, update, axis=axis, reduction=reduction_, dims=ctx.dims(x))


def _update_block(ctx: Any, x: Any, update: Any, parts: Sequence[Column]) -> Any:
    """An update that is smaller than `x` along several axes: they are merged into one."""
    dims, sizes = ctx.dims(x), ctx.dims(update)
    first, after = parts[0].axis, parts[-1].axis + 1
    axes = range(first, after)
    labels: list[Label] = [("axis", d) for d in axes]
    positions = {}
    for column in parts:
        start, _valid = settle(ctx, column, GatherScatterMode.CLIP, native=False)
        positions[column.axis] = batch_index(ctx, start, labels, 0, ("axis", column.axis), column.size)
    whole = {d: ("axis", d) for d in axes if d not in positions}
    index = linear_index(ctx, axes, dims[first:after], positions, whole, labels)
    count = math.prod(sizes[first:after])
    flat = ctx.reshape(x, (*dims[:first], math.prod(dims[first:after]), *dims[after:]))
    update = ctx.reshape(update, (*sizes[:first], count, *sizes[after:]))
    return ctx.reshape(scatter_rows(ctx, flat, first, ctx.reshape(index, (count,)), update), dims)
