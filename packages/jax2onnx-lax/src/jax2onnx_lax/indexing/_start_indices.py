"""Start indices of windows along single axes: brought into range, checked, and merged into one linear index.

`gather`, the `scatter` family and dynamic slices see an index array [*batch, k] as k start indices: number j
holds, for each position of the batch, where the window starts along one axis of the operand.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence

import numpy as np
from jax.lax import GatherScatterMode
from jax2onnx_core import Context, Dim, Value
from jax2onnx_core.jaxprs import definitely_le
from jax2onnx_graph.build.builder import DtypeLike

from jax2onnx_lax.indexing._generated_arrays import arange
from jax2onnx_lax.indexing._index_arrays import dimension, wide_index
from jax2onnx_lax.indexing._named_axes import AxisName
from jax2onnx_lax.indexing._negative_indices import before_normalisation
from jax2onnx_lax.integers._values import integers, is_in_range

__all__ = [
    "StartIndex",
    "as_value",
    "clip",
    "is_always_in_range",
    "is_promise_checked",
    "linear_index",
    "resolve_out_of_bounds",
    "stack_indices",
    "window_positions",
]


@dataclasses.dataclass(frozen=True)
class StartIndex:
    """The starts of windows of `size` elements along `axis` of an operand that has `extent` elements there.

    `value` is int32 or int64 with the shape of the batch.
    """

    axis: int
    size: Dim
    extent: Dim
    value: Value


# ---------------------------------------------------------------------------------------- out of range


def resolve_out_of_bounds(
    ctx: Context, start: StartIndex, mode: GatherScatterMode, *, native: bool
) -> tuple[Value, Value | None]:
    """Start indices that an operator can take, and whether each of them was in range.

    Indices out of range are moved into it, unless the mode promises that there are none and the operator would
    refuse them if the promise were broken.

    Args:
      ctx: the context of the rule.
      start: the indices and the range they may be in.
      mode: JAX's treatment of indices out of range; only FILL_OR_DROP asks which these are.
      native: the operator counts negative indices from the end itself, and refuses what is out of range.

    Returns:
      The indices, and booleans of the same shape or None: all are in range, or the mode does not ask.
    """
    low: Dim = 0
    index = start.value
    original = before_normalisation(ctx, index, start.extent) if native and start.size == 1 else None
    if original is not None:
        low, index = -start.extent, original
    high = start.extent - start.size
    is_promised = mode == GatherScatterMode.PROMISE_IN_BOUNDS and native
    if is_in_range(ctx, index, low, high) or (is_promised and _is_refused(ctx, start, index)):
        return index, None
    clipped = clip(ctx, index, low, high)
    if mode != GatherScatterMode.FILL_OR_DROP:
        return clipped, None
    known, moved = ctx.known(index), ctx.known(clipped)
    if known is not None and moved is not None:
        return clipped, ctx.constant(known == moved)
    return clipped, ctx.op.Equal(clipped, ctx.cast(index, ctx.dtype(clipped)))


def _is_refused(ctx: Context, start: StartIndex, index: Value) -> bool:
    """Whether an operator refuses `index` out of range, instead of counting it from the end."""
    if index is not start.value:
        return True
    return ctx.known(index) is None and definitely_le(0, integers(ctx, index).low)


def is_promise_checked(ctx: Context, start: StartIndex) -> bool:
    """Whether a native operator refuses these start indices if the promise that they are in range is broken."""
    if start.size != 1:
        return False
    return before_normalisation(ctx, start.value, start.extent) is not None or _is_refused(ctx, start, start.value)


def is_always_in_range(ctx: Context, start: StartIndex) -> bool:
    """Whether every window can be seen to lie within the operand."""
    if is_in_range(ctx, start.value, 0, start.extent - start.size):
        return True
    original = before_normalisation(ctx, start.value, start.extent)
    return original is not None and start.size == 1 and is_in_range(ctx, original, -start.extent, start.extent - 1)


def clip(ctx: Context, index: Value, low: Dim, high: Dim) -> Value:
    """Move integers into a range.

    Args:
      ctx: the context of the rule.
      index: the integers, int32 or int64.
      low: the smallest result.
      high: the largest result.

    Returns:
      Integers of the same dtype, or int64 where a limit is symbolic.
    """
    if isinstance(low, int) and isinstance(high, int):
        known = ctx.known(index)
        if known is not None:
            return ctx.constant(np.clip(known, low, high), like=index)
        least, greatest = ctx.constant(low, like=index), ctx.constant(high, like=index)
    else:
        index, least, greatest = wide_index(ctx, index), dimension(ctx, low), dimension(ctx, high)
    return ctx.define(ctx.op.Clip(index, least, greatest), "clamp", least, index, greatest)


# ---------------------------------------------------------------------------------------- positions


def stack_indices(ctx: Context, parts: Sequence[Value], axis: int) -> Value:
    """Concatenate index arrays as int64.

    Args:
      ctx: the context of the rule.
      parts: the arrays, int32 or int64.
      axis: the axis along which they are concatenated.
    """
    if len({ctx.dtype(part) for part in parts}) > 1:
        parts = [ctx.cast(part, np.int64) for part in parts]
    return ctx.cast(ctx.concat(parts, axis), np.int64)


def window_positions(
    ctx: Context, value: Value, axis_names: Sequence[AxisName], batch_rank: int, window: AxisName | None, size: Dim
) -> Value:
    """Start indices [*batch] as positions over `axis_names`: start + offset in the window.

    Args:
      ctx: the context of the rule.
      value: the start indices.
      axis_names: the axes of the result: batch axes, then window axes.
      batch_rank: the number of axes of the batch.
      window: the axis of these indices' own window; None where it has size 1.
      size: the size of that window.

    Returns:
      Positions that broadcast to the shape of the names.
    """
    if len(axis_names) > batch_rank:
        value = ctx.unsqueeze(value, range(batch_rank, len(axis_names)))
    if window is None or size == 1:
        return value
    return ctx.op.Add(value, _along(ctx, arange(ctx, size, ctx.dtype(value)), axis_names, window))


def linear_index(
    ctx: Context,
    axes: Sequence[int],
    extents: Sequence[Dim],
    parts: Mapping[int, Value],
    batching: Mapping[int, AxisName],
    axis_names: Sequence[AxisName],
) -> Value:
    """Indices along several axes as one index into these axes merged: Σ index · stride, row-major.

    Args:
      ctx: the context of the rule.
      axes: operand axes that are next to each other.
      extents: their sizes.
      parts: operand axis → indices along it, which broadcast to the shape of the names.
      batching: operand axis → the name whose position is the index along it.
      axis_names: the axes of the result.

    Returns:
      int32 where all parts are and the merged axis is short enough, else int64.
    """
    total = math.prod(extents)
    is_narrow = isinstance(total, int) and total < 2**31 and all(ctx.dtype(part) == np.int32 for part in parts.values())
    dtype = np.int32 if is_narrow else np.int64
    result: Value | None = None
    stride: Dim = 1
    for axis, extent in reversed(list(zip(axes, extents, strict=True))):
        if axis in batching:
            term = _along(ctx, arange(ctx, extent, dtype), axis_names, batching[axis])
        else:
            term = ctx.cast(parts[axis], dtype)
        term = term if isinstance(stride, int) and stride == 1 else ctx.op.Mul(term, as_value(ctx, stride, dtype))
        result = term if result is None else ctx.op.Add(term, result)
        stride = stride * extent
    assert result is not None, "at least one axis is merged"
    return result


def as_value(ctx: Context, dim: Dim, dtype: DtypeLike) -> Value:
    """A dimension as a scalar.

    Args:
      ctx: the context of the rule.
      dim: the dimension, which may be symbolic.
      dtype: an integer dtype.
    """
    return ctx.constant(dim, dtype=dtype) if isinstance(dim, int) else ctx.cast(ctx.dim(dim), dtype)


def _along(ctx: Context, line: Value, axis_names: Sequence[AxisName], axis_name: AxisName) -> Value:
    """A vector as an array that broadcasts over `axis_names`, lying along `axis_name`."""
    after = len(axis_names) - 1 - list(axis_names).index(axis_name)
    return ctx.unsqueeze(line, range(1, after + 1)) if after else line
