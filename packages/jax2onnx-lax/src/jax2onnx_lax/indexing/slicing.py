"""`slice`, `dynamic_slice` and `dynamic_update_slice`."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from jax.lax import GatherScatterMode
from jax2onnx_core import Context, Dim, Rules, Value
from jax2onnx_core.jaxprs import bounds
from jax2onnx_graph.build.builder import Array

from jax2onnx_lax._compat import max_dim
from jax2onnx_lax.indexing._generated_arrays import arange
from jax2onnx_lax.indexing._index_arrays import to_index
from jax2onnx_lax.indexing._named_axes import AxisName
from jax2onnx_lax.indexing._start_indices import StartIndex, linear_index, resolve_out_of_bounds, window_positions
from jax2onnx_lax.integers._values import as_dimension

__all__ = ["from_end", "replace_part", "rules", "slice_along", "take_windows"]

rules = Rules()
rules.componentwise("slice", "dynamic_slice", "dynamic_update_slice")

_TO_THE_END = 2**63 - 1
CLIP = GatherScatterMode.CLIP


@rules.lower("slice")
def slice_(
    ctx: Context, x: Value, *, start_indices: Sequence[Dim], limit_indices: Sequence[Dim],
    strides: Sequence[Dim] | None = None, **_: object,
) -> Value:  # fmt: skip
    """`x[start:limit:stride, …]`, one of each for every axis."""
    dims = ctx.known_dims(x)
    steps = [1] * len(dims) if strides is None else strides
    axes = [
        d
        for d, (start, limit, step) in enumerate(zip(start_indices, limit_indices, steps, strict=True))
        if not (start == 0 and limit == dims[d] and (step == 1 or dims[d] == 1))
    ]
    every = (start_indices, limit_indices, steps, ctx.avals_out[0].shape)
    starts, ends, steps, sizes = ([values[d] for d in axes] for values in every)
    return slice_along(ctx, x, axes, starts, ends, steps, sizes)


@rules.numpy_evaluator("slice")
def _evaluate_slice(
    x: Array, *, start_indices: Sequence[int], limit_indices: Sequence[int], strides: Sequence[int] | None = None,
    **_: object,
) -> Array:  # fmt: skip
    steps = [1] * x.ndim if strides is None else strides
    parts = zip(start_indices, limit_indices, steps, strict=True)
    return x[tuple(slice(int(start), int(limit), int(step)) for start, limit, step in parts)]


def slice_along(
    ctx: Context, x: Value, axes: Sequence[int], starts: Sequence[Dim | Value], ends: Sequence[Dim | Value],
    steps: Sequence[Dim] | None, sizes: Sequence[Dim],
) -> Value:  # fmt: skip
    """`x[..., start:end:step, ...]` along `axes`.

    Bounds at a fixed distance from the end of an axis are written as such, so that no shape arithmetic is needed.

    Args:
      ctx: the context of the rule.
      x: the operand.
      axes: the axes that are sliced; for none, the result is `x`.
      starts: dimensions, or int64 tensors of shape [1], one for each of the axes.
      ends: likewise.
      steps: None for 1 everywhere.
      sizes: the dimensions of the result along the axes.
    """
    if not axes:
        return x
    dims = ctx.known_dims(x)
    length = dict(zip(axes, sizes, strict=True))
    extents = [dims[axis] for axis in axes]
    starts = [s if isinstance(s, Value) else from_end(s, n, 0) for s, n in zip(starts, extents, strict=True)]
    ends = [e if isinstance(e, Value) else from_end(e, n, _TO_THE_END) for e, n in zip(ends, extents, strict=True)]
    operands = [x, _vector(ctx, starts), _vector(ctx, ends), ctx.ints(axes)]
    if steps is not None and any(step != 1 for step in steps):
        operands.append(_vector(ctx, steps))
    return ctx.op.Slice(*operands, dims=tuple(length.get(d, size) for d, size in enumerate(dims)))


def from_end(bound: Dim, extent: Dim, at_end: int) -> Dim:
    """A bound of a slice along an axis, counted from its end if it is a symbolic number at a fixed distance from it.

    Args:
      bound: `extent - n` or `max(0, extent - n)`, where Slice stops at 0 by itself, become `-n`; others are kept.
      extent: the size of the axis.
      at_end: the value that is written for `extent` itself; 0 keeps it.
    """
    if isinstance(bound, int) or isinstance(extent, int):
        return bound
    distance = extent - bound
    if isinstance(distance, int):
        if distance == 0:
            return at_end or bound
        return -distance if distance > 0 else bound
    limit = bounds(distance)[1]
    cut = 0 < limit < _TO_THE_END and _is_cut(bound, extent - int(limit))
    return -int(limit) if cut else bound


def _window_end(start: Dim, size: Dim, extent: Dim) -> Dim:
    """`start + size`, or for a size of `max(0, extent - n - start)` the dimension `extent - n`."""
    rest = extent - start - size
    if isinstance(rest, int):
        return start + size
    limit = bounds(rest)[1]
    cut = 0 <= limit < _TO_THE_END and _is_cut(size, extent - start - int(limit))
    return extent - int(limit) if cut else start + size


def _is_cut(dim: Dim, whole: Dim) -> bool:
    """Whether `dim` is the larger of 0 and `whole`, in either order, which JAX distinguishes."""
    return bool(dim == max_dim(0, whole) or dim == max_dim(whole, 0))


def _vector(ctx: Context, items: Sequence[Dim | Value]) -> Value:
    """Dimensions and values of shape [1] as one int64 vector."""
    dims = [item for item in items if not isinstance(item, Value)]
    if len(dims) == len(items):
        return ctx.shape(dims)
    return ctx.concat([ctx.cast(i, np.int64) if isinstance(i, Value) else ctx.shape((i,)) for i in items], 0)


# ---------------------------------------------------------------------------------------- dynamic slices


@rules.lower("dynamic_slice")
def dynamic_slice(ctx: Context, x: Value, *starts: Value, slice_sizes: Sequence[Dim], **_: object) -> Value:
    """A window of `x` that starts at the scalars `starts`, moved into the operand where it reaches out of it.

    Along axes where the window has size 1 it is a Gather, along all others together one Slice.
    """
    windows: list[StartIndex] = []
    ones: list[StartIndex] = []
    for start in _partial(ctx, x, starts, slice_sizes):
        dim = as_dimension(ctx, start.value)
        (ones if start.size == 1 and dim is None else windows).append(start)
    x = take_windows(ctx, x, [start.axis for start in windows], windows, CLIP)[0]
    for start in ones:
        index, _valid = resolve_out_of_bounds(ctx, start, CLIP, native=True)
        dims = tuple(1 if d == start.axis else size for d, size in enumerate(ctx.known_dims(x)))
        x = ctx.op.Gather(x, ctx.unsqueeze(index, [0]), axis=start.axis, dims=dims)
    return x


def _partial(ctx: Context, x: Value, starts: Sequence[Value], sizes: Sequence[Dim]) -> list[StartIndex]:
    """The axes along which only a part of `x` is meant, with their starts as int32 or int64."""
    dims = ctx.known_dims(x)
    parts = [d for d in range(len(dims)) if sizes[d] != dims[d]]
    return [StartIndex(d, sizes[d], dims[d], to_index(ctx, starts[d])) for d in parts]


def take_windows(
    ctx: Context, x: Value, places: Sequence[int], windows: Sequence[StartIndex], mode: GatherScatterMode
) -> tuple[Value, list[Value | None]]:
    """One Slice of `x` for windows with scalar starts, and whether each start was in range.

    Args:
      ctx: the context of the rule.
      x: the operand.
      places: the axis of `x` of each window.
      windows: their starts and sizes.
      mode: the treatment of starts out of range.

    Returns:
      The slice; for each window a boolean scalar, or None where it is in range or the mode does not ask.
    """
    starts: list[Dim | Value] = []
    ends: list[Dim | Value] = []
    valid = []
    for window in windows:
        index, ok = resolve_out_of_bounds(ctx, window, mode, native=False)
        dim = as_dimension(ctx, index)
        start = ctx.cast(ctx.unsqueeze(index, [0]), np.int64) if dim is None else dim
        starts.append(start)
        ends.append(_end(ctx, start, window))
        valid.append(ok)
    return slice_along(ctx, x, places, starts, ends, None, [window.size for window in windows]), valid


def _end(ctx: Context, start: Dim | Value, window: StartIndex) -> Dim | Value:
    if isinstance(start, Value):
        return ctx.op.Add(start, ctx.shape((window.size,)))
    return _window_end(start, window.size, window.extent)


# ---------------------------------------------------------------------------------------- dynamic updates


@rules.lower("dynamic_update_slice")
def dynamic_update_slice(ctx: Context, x: Value, update: Value, *starts: Value, **_: object) -> Value:
    """`x` with `update` written at the scalars `starts`, which are moved so that it fits.

    Along one axis it is a Concat where the start is known, else TensorScatter or ScatterElements.
    """
    if any(size == 0 for size in ctx.known_dims(update)):
        return x
    parts = _partial(ctx, x, starts, ctx.known_dims(update))
    if not parts:
        return update
    return _update_along(ctx, x, update, parts[0]) if len(parts) == 1 else _update_block(ctx, x, update, parts)


def _update_along(ctx: Context, x: Value, update: Value, start: StartIndex) -> Value:
    """Write an update that is smaller than `x` along one axis only."""
    axis, dims = start.axis, ctx.known_dims(x)
    scatters_tensor = axis > 0 and ctx.supports("TensorScatter", ctx.dtype(x))
    index, _valid = resolve_out_of_bounds(ctx, start, CLIP, native=not scatters_tensor)
    known = as_dimension(ctx, index)
    if known is not None:
        return replace_part(ctx, x, update, start, known)
    if scatters_tensor:
        rows = ctx.broadcast(ctx.cast(index, np.int64), dims[:1])
        return ctx.op.TensorScatter(x, update, rows, axis=axis, dims=dims)
    index = ctx.unsqueeze(index, [0])
    if start.size != 1:
        index = ctx.op.Add(index, arange(ctx, start.size, ctx.dtype(index)))
    return _scatter_rows(ctx, x, axis, index, update)


def replace_part(ctx: Context, x: Value, update: Value, start: StartIndex, begin: Dim) -> Value:
    """`x` with `update` along one axis, between what is before and behind it.

    Args:
      ctx: the context of the rule.
      x: the operand.
      update: the part.
      start: its axis, and the sizes.
      begin: where it begins.
    """
    axis, extent = start.axis, start.extent
    end = begin + start.size
    pieces = [update]
    if begin != 0:
        pieces.insert(0, slice_along(ctx, x, [axis], [0], [begin], None, [begin]))
    if end != extent:
        pieces.append(slice_along(ctx, x, [axis], [end], [extent], None, [extent - end]))
    return ctx.concat(pieces, axis)


def _scatter_rows(ctx: Context, x: Value, axis: int, index: Value, update: Value) -> Value:
    """Write `update` [..., m, ...] at the positions `index` [m] along `axis` of `x`."""
    dims = ctx.known_dims(update)
    index = ctx.broadcast(ctx.unsqueeze(index, range(1, len(dims) - axis)), dims)
    return ctx.op.ScatterElements(x, index, update, axis=axis, dims=ctx.known_dims(x))


def _update_block(ctx: Context, x: Value, update: Value, parts: Sequence[StartIndex]) -> Value:
    """Write an update that is smaller than `x` along several axes, after merging these into one."""
    dims, sizes = ctx.known_dims(x), ctx.known_dims(update)
    first, after = parts[0].axis, parts[-1].axis + 1
    axes = range(first, after)
    axis_names: list[AxisName] = [("axis", d) for d in axes]
    positions = {}
    for start in parts:
        index, _valid = resolve_out_of_bounds(ctx, start, CLIP, native=False)
        positions[start.axis] = window_positions(ctx, index, axis_names, 0, ("axis", start.axis), start.size)
    whole = {d: ("axis", d) for d in axes if d not in positions}
    merged = linear_index(ctx, axes, dims[first:after], positions, whole, axis_names)
    count = math.prod(sizes[first:after])
    flat = ctx.reshape(x, (*dims[:first], math.prod(dims[first:after]), *dims[after:]))
    update = ctx.reshape(update, (*sizes[:first], count, *sizes[after:]))
    return ctx.reshape(_scatter_rows(ctx, flat, first, ctx.reshape(merged, (count,)), update), dims)
