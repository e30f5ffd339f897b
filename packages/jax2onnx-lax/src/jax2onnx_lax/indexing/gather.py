"""`gather` as the plainest ONNX operator that does it: Slice, Gather, GatherElements, GatherND.

Every gather is brought to one problem first: axes of which the whole batch takes the same window are
sliced, windows become further batch axes, and what remains are single positions along some axes, which
`gather_positions` takes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.lax import GatherDimensionNumbers, GatherScatterMode
from jax2onnx_core import Complex, Context, Dim, Rules, Value
from jax2onnx_core.jaxprs import definitely_le
from jax2onnx_graph.assumptions import Assumption
from jax2onnx_graph.build.builder import DtypeLike

from jax2onnx_lax.dtypes import is_bool, is_float, is_signed
from jax2onnx_lax.indexing._gather_positions import gather_along, take_positions
from jax2onnx_lax.indexing._generated_arrays import zeros
from jax2onnx_lax.indexing._index_arrays import to_index, unstack_indices
from jax2onnx_lax.indexing._named_axes import AxisName, NamedArray, axes_of, rearrange
from jax2onnx_lax.indexing._start_indices import StartIndex, as_value, resolve_out_of_bounds
from jax2onnx_lax.indexing.slicing import from_end, slice_along, take_windows
from jax2onnx_lax.integers._values import as_dimension, one_value, progression

__all__ = ["rules"]

rules = Rules()
rules.componentwise("gather")

FILL, CLIP = GatherScatterMode.FILL_OR_DROP, GatherScatterMode.CLIP
PROMISE = GatherScatterMode.PROMISE_IN_BOUNDS


@rules.lower("gather")
def gather(
    ctx: Context, x: Value, indices: Value, *, dimension_numbers: GatherDimensionNumbers, slice_sizes: Sequence[Dim],
    mode: GatherScatterMode, fill_value: complex | None = None, unique_indices: bool = False, **_: object,
) -> Value:  # fmt: skip
    """Windows of `x` [...] that start at `indices` [*batch, k], as XLA's Gather defines them.

    An index for which JAX only promises that it is in range, as in `x[i]`, is clamped: so does XLA.
    """
    (aval,) = ctx.avals_out
    if any(size == 0 for size in aval.shape):
        return zeros(ctx, ctx.dtype(x), aval.shape)
    indices = to_index(ctx, indices)
    starts = _start_indices(ctx, x, indices, dimension_numbers.start_index_map, slice_sizes)
    operand = NamedArray(x, tuple(("axis", d) for d in range(len(slice_sizes))))
    operand = _cut_unindexed(ctx, operand, starts, dimension_numbers, slice_sizes)
    checked_mode = FILL if mode == FILL else CLIP
    operand, varying, valid = _take_uniform(ctx, operand, starts, checked_mode, dimension_numbers.collapsed_slice_dims)
    if unique_indices and mode == PROMISE:
        operand, varying = _take_strided(ctx, operand, varying, dimension_numbers)
    batch_rank = len(ctx.known_dims(indices)) - 1
    operand, checked = take_positions(ctx, operand, varying, batch_rank, checked_mode, dimension_numbers)
    result = _to_output(ctx, operand, dimension_numbers, aval.shape)
    valid = [*valid, *checked]
    return _fill(ctx, result, valid, fill_value, dimension_numbers.offset_dims) if valid else result


def _start_indices(
    ctx: Context, x: Value, indices: Value, start_index_map: Sequence[int], slice_sizes: Sequence[Dim]
) -> list[StartIndex]:
    dims = ctx.known_dims(x)
    values = unstack_indices(ctx, indices, len(start_index_map))
    return [StartIndex(d, slice_sizes[d], dims[d], v) for d, v in zip(start_index_map, values, strict=True)]


def _cut_unindexed(
    ctx: Context,
    operand: NamedArray,
    starts: Sequence[StartIndex],
    numbers: GatherDimensionNumbers,
    sizes: Sequence[Dim],
) -> NamedArray:
    """Slice the axes without an index: windows start at 0 there."""
    indexed = {start.axis for start in starts} | set(numbers.operand_batching_dims)
    dims = ctx.known_dims(operand.value)
    axes = [d for d in range(len(dims)) if d not in indexed and sizes[d] != dims[d]]
    ends = [sizes[d] for d in axes]
    value = slice_along(ctx, operand.value, axes, [0] * len(axes), ends, None, ends)
    dropped = [d for d in numbers.collapsed_slice_dims if d not in indexed]
    return _drop(ctx, NamedArray(value, operand.axis_names), dropped)


def _drop(ctx: Context, operand: NamedArray, axes: Sequence[int]) -> NamedArray:
    """The operand without these axes, each of size 1."""
    return operand.without(ctx, [("axis", d) for d in axes])


# ---------------------------------------------------------------------------------------- uniform windows


def _take_uniform(
    ctx: Context, operand: NamedArray, starts: Sequence[StartIndex], mode: GatherScatterMode, collapsed: Sequence[int]
) -> tuple[NamedArray, list[StartIndex], list[Value]]:
    """Slice along the axes of which the whole batch takes one window.

    Returns:
      The operand that is left, the start indices that are, and the validity of those that are not.
    """
    varying, whole, windows = [], [], []
    valid: list[Value | None] = []
    for start in starts:
        scalar = None if _is_batch_of_one(ctx, start) else one_value(ctx, start.value)
        if start.size == start.extent:
            whole.append(start.axis)
            valid.append(resolve_out_of_bounds(ctx, start, mode, native=False)[1] if mode == FILL else None)
        elif scalar is None:
            varying.append(start)
        else:
            windows.append(dataclasses.replace(start, value=scalar))
    operand = _drop(ctx, operand, [d for d in whole if d in collapsed])
    wide = [window for window in windows if window.size != 1]
    places = [operand.axis(("axis", window.axis)) for window in wide]
    value, checked = take_windows(ctx, operand.value, places, wide, mode)
    operand = NamedArray(value, operand.axis_names)
    valid += checked
    for window in windows:
        if window.size == 1:
            operand, ok = _take_one(ctx, operand, window, mode, drop=window.axis in collapsed)
            valid.append(ok)
    return operand, varying, [v for v in valid if v is not None]


def _is_batch_of_one(ctx: Context, start: StartIndex) -> bool:
    """Whether one position is taken by an index with axes, each of size 1, which the result has too: Gather gives them to it."""
    dims = ctx.known_dims(start.value)
    if start.size != 1 or not dims or any(size != 1 for size in dims):
        return False
    return ctx.known(start.value) is None and as_dimension(ctx, start.value) is None


def _take_one(
    ctx: Context, operand: NamedArray, start: StartIndex, mode: GatherScatterMode, *, drop: bool
) -> tuple[NamedArray, Value | None]:
    """Gather one position, a scalar, along an axis that is then dropped or has size 1; and the index' validity."""
    index, valid = resolve_out_of_bounds(ctx, start, mode, native=True)
    axis_name = ("axis", start.axis)
    dim = as_dimension(ctx, index)
    if dim is not None:
        index = as_value(ctx, from_end(dim, start.extent, 0), np.int64)
    index = index if drop else ctx.unsqueeze(index, [0])
    return gather_along(ctx, operand, index, axis_name, [] if drop else [axis_name]), valid


def _take_strided(
    ctx: Context, operand: NamedArray, varying: list[StartIndex], numbers: GatherDimensionNumbers
) -> tuple[NamedArray, list[StartIndex]]:
    """Slice with a step where the indices are start, start + step, …: `x[::2]` beside symbolic dimensions."""
    if len(varying) != 1 or numbers.operand_batching_dims:
        return operand, varying
    (start,) = varying
    found = progression(ctx, start.value)
    if found is None or len(ctx.known_dims(start.value)) != 1 or start.axis not in numbers.collapsed_slice_dims:
        return operand, varying
    if found.step <= 0 or not definitely_le(0, found.start):
        return operand, varying
    value, axis_name = operand.value, ("axis", start.axis)
    if not (found.start == 0 and found.step == 1 and found.count == start.extent):
        reaches_end = definitely_le(start.extent, found.start + found.step * found.count)
        # Not start + step · (count - 1) + 1: for a count of 0 that may be negative, which counts from the end.
        end = start.extent if reaches_end else found.start + found.step * found.count
        place = operand.axis(axis_name)
        value = slice_along(ctx, value, [place], [found.start], [end], [found.step], [found.count])
    axis_names = tuple(("batch", 0) if other == axis_name else other for other in operand.axis_names)
    return NamedArray(value, axis_names), []


# ---------------------------------------------------------------------------------------- the result


def _to_output(ctx: Context, operand: NamedArray, numbers: GatherDimensionNumbers, shape: Sequence[Dim]) -> Value:
    """Axes in the order that JAX declares; axes of the batch that nothing varied along are broadcast."""
    offsets = iter(sorted(axes_of(operand.axis_names)))
    batch = iter(range(len(shape)))
    wanted: list[AxisName] = [
        ("axis", next(offsets)) if i in numbers.offset_dims else ("batch", next(batch)) for i in range(len(shape))
    ]
    present = [axis_name for axis_name in wanted if axis_name in operand.axis_names]
    result = rearrange(ctx, operand.value, operand.axis_names, present)
    if len(present) == len(wanted):
        return result
    return ctx.broadcast_in_dim(result, shape, [wanted.index(axis_name) for axis_name in present])


def _fill(
    ctx: Context, result: Value, valid: Sequence[Value], fill_value: complex | None, offset_dims: Sequence[int]
) -> Value:
    """The fill value where any index was out of range; under the promise that no number is NaN, none was where that fills."""
    dtype = ctx.dtype(result)
    value = _default_fill(dtype) if fill_value is None else fill_value
    fills_nan = is_float(dtype) and bool(np.isnan(value))
    if fills_nan and ctx.assumes(Assumption.FINITE):
        return result
    mask = valid[0]
    for other in valid[1:]:
        mask = ctx.op.And(mask, other)
    if ctx.known_dims(mask):
        mask = ctx.unsqueeze(mask, offset_dims)
    if fills_nan:
        # Multiplying by NaN or 1 costs half of what Where does, and 1 x is x for every x. (x + -0 is too, but Where may make it 0.)
        return ctx.op.Mul(result, ctx.op.Where(mask, ctx.constant(1, like=result), ctx.constant(value, like=result)))
    return ctx.op.Where(mask, result, ctx.constant(value, like=result))


def _default_fill(dtype: DtypeLike) -> float:
    """The element that JAX fills with where it is given none: NaN, True, the lowest signed or the highest unsigned integer."""
    if is_float(dtype):
        return np.nan
    if is_bool(dtype):
        return True
    limits = jnp.iinfo(dtype)
    return int(limits.min if is_signed(dtype) else limits.max)


@rules.complex("gather")
def _complex_gather(x: Complex, indices: jax.Array, *, fill_value: complex | None = None, **params: Any) -> Complex:
    """Gather from the real and imaginary parts, each with its part of the fill value."""
    value = complex(np.nan if fill_value is None else fill_value)
    real, imag = (
        lax.gather(part, indices, fill_value=fill, **params)
        for part, fill in zip(x, (value.real, value.imag), strict=True)
    )
    return Complex(real, imag)
