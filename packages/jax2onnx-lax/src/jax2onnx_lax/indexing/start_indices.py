"""Start indices along single axes of an operand: clamped, checked, and merged into one linear index.

`gather`, the `scatter` family and dynamic slices see an index array as *columns*: column j holds, for
each position of the batch, where the window starts along one axis of the operand. A *label* names an
axis of an intermediate array: `("batch", i)` is axis i of the index array, `("axis", d)` is axis d of
the operand.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jax.lax import GatherScatterMode

from jax2onnx_lax.indexing.index_analysis import before_normalisation, bounds, definitely_le, in_range

__all__ = [
    "Column",
    "Label",
    "always_in_range",
    "arrange",
    "batch_index",
    "clip",
    "contiguous",
    "counted",
    "keeps_promise",
    "linear_index",
    "settle",
    "stacked",
]

Label = tuple[str, int]
INT32, INT64 = np.dtype(np.int32), np.dtype(np.int64)
PROMISE = GatherScatterMode.PROMISE_IN_BOUNDS


@dataclasses.dataclass(frozen=True)
class Column:
    """Where windows of `size` start along `axis` of an operand that is `extent` long there.

    `value` is int32 or int64 with the shape of the batch.
    """

    axis: int
    size: Any
    extent: Any
    value: Any


def settle(ctx: Any, column: Column, mode: GatherScatterMode, *, native: bool) -> tuple[Any, Any]:
    """The starts that an operator may use, and whether each was in range (None: all are, or nobody asks).

    With `native`, the operator counts negative indices from the end itself, and refuses what is out of range.
    Starts out of range are moved into it, unless the caller has promised that there are none and the
    operator would notice if the promise were broken.
    """
    low, index = 0, column.value
    if native and column.size == 1:
        original = before_normalisation(ctx, column.value, column.extent)
        low, index = (low, index) if original is None else (-column.extent, original)
    high = column.extent - column.size
    if in_range(ctx, index, low, high) or (mode == PROMISE and native and _is_noticed(ctx, column, index)):
        return index, None
    clipped = clip(ctx, index, low, high)
    if mode != GatherScatterMode.FILL_OR_DROP:
        return clipped, None
    known, moved = ctx.known(index), ctx.known(clipped)
    if known is not None and moved is not None:
        return clipped, ctx.constant(known == moved)
    return clipped, ctx.op.Equal(clipped, ctx.cast(index, ctx.dtype(clipped)))


def _is_noticed(ctx: Any, column: Column, index: Any) -> bool:
    """Would an index out of range be an error, and not something else that the operator understands?"""
    if index is not column.value:
        return True
    found = bounds(ctx, index) if ctx.known(index) is None else None
    return found is not None and definitely_le(0, found[0])


def keeps_promise(ctx: Any, column: Column) -> bool:
    """Does `settle` leave the starts alone if they are promised to be in range and the operator is `native`?"""
    return column.size == 1 and (
        before_normalisation(ctx, column.value, column.extent) is not None or _is_noticed(ctx, column, column.value)
    )


def always_in_range(ctx: Any, column: Column) -> bool:
    """Can it be seen that every window lies within the operand?"""
    if in_range(ctx, column.value, 0, column.extent - column.size):
        return True
    original = before_normalisation(ctx, column.value, column.extent)
    return original is not None and column.size == 1 and in_range(ctx, original, -column.extent, column.extent - 1)


def stacked(ctx: Any, parts: Sequence[Any], axis: int) -> Any:
    """Columns side by side along `axis`, as int64."""
    if len({ctx.dtype(part) for part in parts}) > 1:
        parts = [ctx.cast(part, INT64) for part in parts]
    return ctx.cast(ctx.concat(parts, axis), INT64)


def clip(ctx: Any, index: Any, low: Any, high: Any) -> Any:
    """`index` moved into low … high (dimensions)."""
    if isinstance(low, int) and isinstance(high, int):
        known = ctx.known(index)
        if known is not None:
            return ctx.constant(np.clip(known, low, high), like=index)
        return ctx.op.Clip(index, ctx.constant(low, like=index), ctx.constant(high, like=index))
    return ctx.op.Clip(ctx.cast(index, INT64), ctx.dim(low), ctx.dim(high))


def counted(ctx: Any, count: Any, dtype: np.dtype) -> Any:
    """0, 1, …, count - 1 as [count]."""
    if isinstance(count, int):
        return ctx.constant(np.arange(count, dtype=dtype))
    start, step = ctx.constant(0, dtype=INT64), ctx.constant(1, dtype=INT64)
    return ctx.cast(ctx.op.Range(start, ctx.dim(count), step, dims=(count,)), dtype)


def batch_index(ctx: Any, value: Any, labels: Sequence[Label], batch_rank: int, window: Label | None, size: Any) -> Any:
    """Starts [batch] as indices over `labels` (the batch's, then those of windows): start + offset in the window."""
    value = ctx.unsqueeze(value, list(range(batch_rank, len(labels)))) if len(labels) > batch_rank else value
    if window is None or size == 1:
        return value
    return ctx.op.Add(value, _along(ctx, counted(ctx, size, ctx.dtype(value)), labels, window))


def _along(ctx: Any, line: Any, labels: Sequence[Label], label: Label) -> Any:
    """[n] as [1, …, n, …, 1], broadcasting over `labels` with n at `label`."""
    after = len(labels) - 1 - list(labels).index(label)
    return ctx.unsqueeze(line, list(range(1, after + 1))) if after else line


def linear_index(
    ctx: Any,
    axes: Sequence[int],
    extents: Sequence[Any],
    parts: Mapping[int, Any],
    batching: Mapping[int, Label],
    labels: Sequence[Label],
) -> Any:
    """Σ index · stride over `axes` of an operand (row-major), over `labels`.

    `parts` holds the indices of an axis; an axis in `batching` is indexed by the position along that label.
    """
    total = math.prod(extents)
    narrow = isinstance(total, int) and total < 2**31 and all(ctx.dtype(p) == INT32 for p in parts.values())
    dtype, result, stride = (INT32 if narrow else INT64), None, 1
    for axis, extent in reversed(list(zip(axes, extents, strict=True))):
        if axis in batching:
            term = _along(ctx, counted(ctx, extent, dtype), labels, batching[axis])
        else:
            term = ctx.cast(parts[axis], dtype)
        term = term if isinstance(stride, int) and stride == 1 else ctx.op.Mul(term, _number(ctx, stride, dtype))
        result = term if result is None else ctx.op.Add(term, result)
        stride = stride * extent
    return result


def _number(ctx: Any, dim: Any, dtype: np.dtype) -> Any:
    return ctx.constant(dim, dtype=dtype) if isinstance(dim, int) else ctx.cast(ctx.dim(dim), dtype)


def contiguous(axes: Sequence[Any], some: Sequence[Any]) -> bool:
    """Are `some` neighbours in `axes`?"""
    places = sorted(list(axes).index(a) for a in some)
    return places == list(range(places[0], places[0] + len(places)))


def arrange(ctx: Any, x: Any, labels: Sequence[Label], wanted: Sequence[Label]) -> Any:
    """`x`, whose axes are called `labels`, with its axes in the order `wanted`."""
    order = list(labels)
    return ctx.transpose(x, tuple(order.index(label) for label in wanted))
