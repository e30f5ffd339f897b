"""`gather` as the plainest ONNX operator that does it: Slice, Gather, GatherElements, GatherND.

Every gather is brought to one problem first: axes of which the whole batch takes the same window are
sliced, windows become further batch axes, and what remains are single positions along some axes. If
none of the special operators fits, those axes are merged into one and a Gather of linear indices is
left (the reduction of a general gather to a flat take is the usual one, e.g. in XLA's gather expander).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.lax import GatherScatterMode
from jax2onnx_core import Complex, Rules

from jax2onnx_lax.indexing.index_analysis import as_dimension, columns, definitely_le, one_value, progression, to_index
from jax2onnx_lax.indexing.slicing import from_end, slice_along, take_windows
from jax2onnx_lax.indexing.start_indices import (
    Column,
    Label,
    arrange,
    batch_index,
    contiguous,
    linear_index,
    settle,
    stacked,
)

__all__ = ["rules"]

rules = Rules()
rules.componentwise("gather")


@dataclasses.dataclass
class _Operand:
    """What is left of the operand: `labels` names the axes of `value`."""

    value: Any
    labels: list[Label]

    def place(self, axis: int) -> int:
        return self.labels.index(("axis", axis))


@rules.lower("gather")
def gather(
    ctx: Any, x: Any, indices: Any, *, dimension_numbers: Any, slice_sizes: Sequence[Any], mode: Any,
    fill_value: Any = None, unique_indices: bool = False, **_: Any,
) -> Any:  # fmt: skip
    (aval,) = ctx.avals_out
    if any(isinstance(size, int) and size == 0 for size in aval.shape):
        return ctx.broadcast(ctx.constant(np.zeros((), ctx.dtype(x))), aval.shape)
    mode = GatherScatterMode.from_any(mode)
    indices = to_index(ctx, indices)
    operand = _Operand(x, [("axis", d) for d in range(len(ctx.dims(x)))])
    found = _columns(ctx, operand, indices, dimension_numbers.start_index_map, slice_sizes)
    _cut_unindexed(ctx, operand, found, dimension_numbers, slice_sizes)
    varying, valid = _take_uniform(ctx, operand, found, mode, dimension_numbers.collapsed_slice_dims)
    if unique_indices and mode == GatherScatterMode.PROMISE_IN_BOUNDS:
        varying = _take_strided(ctx, operand, varying, dimension_numbers)
    valid += _take_varying(ctx, operand, indices, varying, mode, dimension_numbers)
    result = _to_output(ctx, operand, dimension_numbers, aval.shape)
    if valid:
        result = _fill(ctx, result, valid, fill_value, dimension_numbers.offset_dims)
    return result


def _columns(
    ctx: Any, operand: _Operand, indices: Any, start_index_map: Sequence[int], slice_sizes: Sequence[Any]
) -> list[Column]:
    dims = ctx.dims(operand.value)
    values = columns(ctx, indices)
    return [Column(d, slice_sizes[d], dims[d], v) for d, v in zip(start_index_map, values, strict=True)]


def _cut_unindexed(ctx: Any, operand: _Operand, found: Sequence[Column], numbers: Any, slice_sizes: Any) -> None:
    """Axes without an index start at 0: keep the part that is asked for."""
    indexed = {column.axis for column in found} | set(numbers.operand_batching_dims)
    dims = ctx.dims(operand.value)
    axes = [d for d in range(len(dims)) if d not in indexed and slice_sizes[d] != dims[d]]
    if axes:
        ends = [slice_sizes[d] for d in axes]
        operand.value = slice_along(ctx, operand.value, axes, [0] * len(axes), ends, None, ends)
    _drop(ctx, operand, [d for d in numbers.collapsed_slice_dims if d not in indexed])


def _drop(ctx: Any, operand: _Operand, axes: Sequence[int]) -> None:
    """Remove axes of size one."""
    if axes:
        places = [operand.place(d) for d in axes]
        operand.value = ctx.squeeze(operand.value, places)
        operand.labels = [label for label in operand.labels if label[1] not in axes]


# ---------------------------------------------------------------------------------------- uniform windows


def _take_uniform(
    ctx: Any, operand: _Operand, found: Sequence[Column], mode: GatherScatterMode, collapsed: Sequence[int]
) -> tuple[list[Column], list[Any]]:
    """Slice along the axes of which the whole batch takes one window; the other columns, and what was valid."""
    varying, whole, windows, valid = [], [], [], []
    for column in found:
        scalar = one_value(ctx, column.value)
        if column.size == column.extent:
            whole.append(column.axis)
            valid.append(_first(ctx, column, mode))
        elif scalar is None:
            varying.append(column)
        else:
            windows.append(dataclasses.replace(column, value=scalar))
    _drop(ctx, operand, [d for d in whole if d in collapsed])
    wide = [w for w in windows if w.size != 1]
    operand.value, ok = take_windows(ctx, operand.value, [operand.place(w.axis) for w in wide], wide, mode)
    valid += ok
    for column in windows:
        if column.size == 1:
            valid.append(_take_one(ctx, operand, column, mode, drop=column.axis in collapsed))
    return varying, [v for v in valid if v is not None]


def _first(ctx: Any, column: Column, mode: GatherScatterMode) -> Any:
    """Validity of an index of which only 0 is in range."""
    if mode != GatherScatterMode.FILL_OR_DROP:
        return None
    return settle(ctx, column, mode, native=False)[1]


def _take_strided(ctx: Any, operand: _Operand, varying: list[Column], numbers: Any) -> list[Column]:
    """Slice with a step where the indices are start, start + step, …: `x[::2]` beside symbolic dimensions."""
    if len(varying) != 1 or numbers.operand_batching_dims:
        return varying
    (column,) = varying
    found = progression(ctx, column.value)
    if found is None or len(ctx.dims(column.value)) != 1 or column.axis not in numbers.collapsed_slice_dims:
        return varying
    start, step, count = found
    if step <= 0 or not definitely_le(0, start):
        return varying
    place = operand.place(column.axis)
    whole = start == 0 and step == 1 and count == column.extent
    if not whole:
        reaches_end = definitely_le(column.extent, start + step * count)
        end = column.extent if reaches_end else start + step * (count - 1) + 1
        operand.value = slice_along(ctx, operand.value, [place], [start], [end], [step], [count])
    operand.labels[place] = ("batch", 0)
    return []


def _take_one(ctx: Any, operand: _Operand, column: Column, mode: GatherScatterMode, *, drop: bool) -> Any:
    index, valid = settle(ctx, column, mode, native=True)
    place = operand.place(column.axis)
    dimension = as_dimension(ctx, index)
    if dimension is not None:
        dimension = from_end(dimension, column.extent, 0)
        index = ctx.constant(dimension, dtype=np.int64) if isinstance(dimension, int) else ctx.dim(dimension)
    index = index if drop else ctx.unsqueeze(index, [0])
    _gather(ctx, operand, index, place)
    if drop:
        del operand.labels[place]
    return valid


def _gather(ctx: Any, operand: _Operand, index: Any, place: int) -> None:
    dims = ctx.dims(operand.value)
    dims = (*dims[:place], *ctx.dims(index), *dims[place + 1 :])
    operand.value = ctx.op.Gather(operand.value, index, axis=place, dims=dims)


# ---------------------------------------------------------------------------------------- varying positions


def _take_varying(
    ctx: Any, operand: _Operand, indices: Any, varying: Sequence[Column], mode: GatherScatterMode, numbers: Any
) -> list[Any]:
    """Take, for each position of the batch, what its indices say; returns what was valid."""
    batching = {
        d: ("batch", i)
        for d, i in zip(numbers.operand_batching_dims, numbers.start_indices_batching_dims, strict=True)
    }  # fmt: skip
    if not varying:
        operand.labels = [batching.get(axis, label) if label[0] == "axis" else label for label in operand.labels
                          for axis in (label[1],)]  # fmt: skip
        return []
    batch_rank = len(ctx.dims(indices)) - 1
    kept = sorted(column.axis for column in varying if column.axis not in numbers.collapsed_slice_dims)
    labels: list[Label] = [*(("batch", i) for i in range(batch_rank)), *(("axis", d) for d in kept)]
    take = _choose(operand, varying, batching, labels)
    if mode == GatherScatterMode.PROMISE_IN_BOUNDS and take is _take_nd:
        # JAX breaks its own promise here (jax.scipy.ndimage.map_coordinates), and so do users' masks: it clamps.
        mode = GatherScatterMode.CLIP
    settled = [settle(ctx, column, mode, native=take is not _take_linear) for column in varying]
    parts = {
        column.axis: batch_index(
            ctx, start, labels, batch_rank, ("axis", column.axis) if column.axis in kept else None, column.size
        )
        for column, (start, _) in zip(varying, settled, strict=True)
    }
    take(ctx, operand, parts, batching, labels)
    return [valid for _, valid in settled if valid is not None]


def _choose(operand: _Operand, varying: Sequence[Column], batching: dict[int, Label], labels: list[Label]) -> Any:
    axes = [axis for _, axis in operand.labels]
    indexed = [column.axis for column in varying]
    extra = [label for label in labels if label not in batching.values()]
    if len(indexed) == 1 and not batching:
        return _take_axis
    if len(indexed) == 1 and set(axes) == {*batching, *indexed} and len(extra) <= 1:
        return _take_elements
    leading = [batching[d] for d in axes[: len(batching)] if d in batching]
    in_front = leading == labels[: len(batching)]
    following = set(axes[len(batching) : len(batching) + len(indexed)]) == set(indexed)
    windows = any(kind == "axis" for kind, _ in labels)
    if in_front and following and (len(indexed) == 1 or not windows):
        return _take_nd
    return _take_linear


def _take_axis(ctx: Any, operand: _Operand, parts: dict[int, Any], _: Any, labels: list[Label]) -> None:
    ((axis, index),) = parts.items()
    place = operand.place(axis)
    _gather(ctx, operand, index, place)
    operand.labels[place : place + 1] = labels


def _take_elements(
    ctx: Any, operand: _Operand, parts: dict[int, Any], batching: dict[int, Label], labels: list[Label]
) -> None:
    """All other axes are batched: one element for each index."""
    ((axis, index),) = parts.items()
    extra = [label for label in labels if label not in batching.values()]
    along = extra[0] if extra else ("axis", axis)
    if not extra:
        index, labels = ctx.unsqueeze(index, [len(labels)]), [*labels, along]
    place = operand.place(axis)
    operand.labels = [along if d == axis else batching[d] for _, d in operand.labels]
    index = arrange(ctx, index, labels, operand.labels)
    operand.value = ctx.op.GatherElements(operand.value, index, axis=place, dims=ctx.dims(index))
    if not extra:
        operand.value = ctx.squeeze(operand.value, [place])
        del operand.labels[place]


def _take_nd(
    ctx: Any, operand: _Operand, parts: dict[int, Any], batching: dict[int, Label], labels: list[Label]
) -> None:
    """The batched axes come first, then the indexed ones."""
    batched, count = len(batching), len(parts)
    axes = [axis for _, axis in operand.labels[batched : batched + count]]
    last = len(labels)
    index = stacked(ctx, [ctx.unsqueeze(parts[axis], [last]) for axis in axes], last)
    dims = (*ctx.dims(index)[:-1], *ctx.dims(operand.value)[batched + count :])
    operand.value = ctx.op.GatherND(operand.value, index, batch_dims=batched or None, dims=dims)
    operand.labels[: batched + count] = labels


def _take_linear(
    ctx: Any, operand: _Operand, parts: dict[int, Any], batching: dict[int, Label], labels: list[Label]
) -> None:
    """Merge the batched and the indexed axes into one and take from that."""
    merged = [label for label in operand.labels if label[1] in parts or label[1] in batching]
    if not contiguous(operand.labels, merged):
        wanted = [*merged, *(label for label in operand.labels if label not in merged)]
        operand.value = arrange(ctx, operand.value, operand.labels, wanted)
        operand.labels = wanted
    dims, place = ctx.dims(operand.value), operand.labels.index(merged[0])
    after = place + len(merged)
    extents = dims[place:after]
    index = linear_index(ctx, [axis for _, axis in merged], extents, parts, batching, labels)
    flat = ctx.reshape(operand.value, (*dims[:place], math.prod(extents), *dims[after:]))
    operand.value = flat
    _gather(ctx, operand, index, place)
    operand.labels[place:after] = labels


# ---------------------------------------------------------------------------------------- the result


def _to_output(ctx: Any, operand: _Operand, numbers: Any, shape: Sequence[Any]) -> Any:
    """Axes in the order that JAX declares; axes of the batch that nothing varied along are broadcast."""
    offsets = iter(sorted(axis for kind, axis in operand.labels if kind == "axis"))
    batch = iter(range(len(shape)))
    wanted: list[Label] = [
        ("axis", next(offsets)) if i in numbers.offset_dims else ("batch", next(batch)) for i in range(len(shape))
    ]
    present = [label for label in wanted if label in operand.labels]
    result = arrange(ctx, operand.value, operand.labels, present)
    if len(present) == len(wanted):
        return result
    return ctx.broadcast_in_dim(result, tuple(shape), tuple(wanted.index(label) for label in present))


def _fill(ctx: Any, result: Any, valid: Sequence[Any], fill_value: Any, offset_dims: Sequence[int]) -> Any:
    """The fill value where any index was out of range."""
    mask = valid[0]
    for other in valid[1:]:
        mask = ctx.op.And(mask, other)
    if ctx.dims(mask):
        mask = ctx.unsqueeze(mask, list(offset_dims)) if offset_dims else mask
    dtype = ctx.dtype(result)
    value = _default_fill(dtype) if fill_value is None else fill_value
    if jnp.issubdtype(dtype, np.floating) and np.isnan(value):
        # Adding NaN or -0 costs half of what Where does, and x + -0 is x for every x.
        return ctx.op.Add(result, ctx.op.Where(mask, ctx.constant(-0.0, like=result), ctx.constant(value, like=result)))
    return ctx.op.Where(mask, result, ctx.constant(value, like=result))


def _default_fill(dtype: np.dtype) -> Any:
    if jnp.issubdtype(dtype, np.inexact):
        return np.nan
    if dtype == np.dtype(bool):
        return True
    limits = jnp.iinfo(dtype)
    return limits.min if jnp.issubdtype(dtype, np.signedinteger) else limits.max


@rules.complex("gather")
def _complex_gather(x: Complex, indices: Any, *, fill_value: Any = None, **params: Any) -> Complex:
    """Part by part, each with its part of the fill value."""
    value = complex(np.nan if fill_value is None else fill_value)
    real, imag = (
        lax.gather(part, indices, fill_value=fill, **params)
        for part, fill in zip(x, (value.real, value.imag), strict=True)
    )
    return Complex(real, imag)
