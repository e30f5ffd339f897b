"""`reduce_window_sum`, `_max` and `_min` by ONNX's AveragePool and MaxPool."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence

import numpy as np
from jax2onnx_core import Context, Value
from jax2onnx_core.jaxprs import Dim, Dims, is_static

from jax2onnx_lax.dtypes import Dtype, is_bool, is_float
from jax2onnx_lax.monoids import MONOIDS
from jax2onnx_lax.padding import FittedPadding, fit_windows, is_same_padding, static_pairs, unchanged_padding
from jax2onnx_lax.reduce._window_folds import reduce_windows
from jax2onnx_lax.reduce._windows import Windows

__all__ = ["Pooling", "pool_max", "pool_min", "pool_sum", "pooling"]


@dataclasses.dataclass(frozen=True)
class Pooling:
    """The operand in the form that ONNX pools: two leading axes, then one to three pooled ones.

    Attributes:
      windows: the windows over the operand.
      axes: the pooled axes.
      rest: the other axes.
      dims: the dimensions of the operand.
      counts: the dimensions of the result.
      kernel: the size of a window along the pooled axes.
      fitted: the padding of the pooled axes.
      is_same: whether it is ONNX's SAME_UPPER, whatever the size of the operand.
    """

    windows: Windows
    axes: Sequence[int]
    rest: Sequence[int]
    dims: Dims
    counts: Dims
    kernel: tuple[int, ...]
    fitted: FittedPadding
    is_same: bool

    @property
    def missing(self) -> int:
        """The number of leading axes that the operand lacks."""
        return max(0, 2 - len(self.rest))

    @property
    def lead(self) -> Dims:
        """The two leading dimensions."""
        sizes = (*(1,) * self.missing, *(self.dims[i] for i in self.rest))
        return math.prod(sizes[:-1]), sizes[-1]

    @property
    def strides(self) -> tuple[int, ...]:
        """The steps of the windows along the pooled axes."""
        return tuple(self.windows.window_strides[i] for i in self.axes)

    @property
    def arranged(self) -> Windows:
        """The windows over the operand in ONNX's layout."""
        padding = tuple(self.windows.padding[i] for i in self.axes)
        ones = (1,) * (len(self.axes) + 2)
        return Windows((1, 1, *self.kernel), (1, 1, *self.strides), ((0, 0), (0, 0), *padding), ones, ones)

    def emit(self, ctx: Context, op_type: str, x: Value, dims: Dims, count_include_pad: int | None = None) -> Value:
        """The pooling operator on an operand in ONNX's layout; `dims` are those of the result."""
        pads = [] if self.is_same else self.fitted.pads
        pooled = ctx.op(
            op_type, x, dims=self.fitted.dims(dims), kernel_shape=self.kernel,
            strides=self.strides if any(s != 1 for s in self.strides) else None,
            pads=pads if any(pads) else None,
            auto_pad="SAME_UPPER" if self.is_same else None, count_include_pad=count_include_pad,
        )  # fmt: skip
        return self.fitted.cut(ctx, pooled, dims)

    def run(self, ctx: Context, x: Value, pool: Callable[[Value, Dims], Value]) -> Value:
        """`pool(x, dims of the result)` in ONNX's layout; the result in the operand's."""
        front = range(self.missing)
        perm = [*front, *(i + self.missing for i in (*self.rest, *self.axes))]
        x = ctx.transpose(ctx.unsqueeze(x, front), perm)
        y = pool(
            ctx.reshape(x, (*self.lead, *(self.dims[i] for i in self.axes))),
            (*self.lead, *(self.counts[i] for i in self.axes)),
        )
        y = ctx.reshape(y, (*(1,) * self.missing, *(self.counts[i] for i in (*self.rest, *self.axes))))
        return ctx.squeeze(ctx.transpose(y, [perm.index(i) for i in range(len(perm))]), front)


def _windows_pooled(ctx: Context, windows: Windows) -> Pooling:
    """The operand as ONNX pools it along the axes that windows move over; declines windows that it does not pool."""
    if windows.covers(ctx.avals_in[0].shape):
        ctx.pass_on("a window over everything is a reduction")
    if all(windows.window_dimensions[axis] == 1 for axis in windows.active):
        ctx.pass_on("windows of one element are a slice")
    return pooling(ctx, windows, windows.active)


def pooling(ctx: Context, windows: Windows, axes: Sequence[int]) -> Pooling:
    """The operand as ONNX pools it.

    Args:
      ctx: the context of the rule. It declines windows that ONNX does not pool.
      windows: the windows over the first operand.
      axes: the pooled axes, all that the windows move over among them.
    """
    dims, counts = ctx.avals_in[0].shape, ctx.avals_out[0].shape
    if any(is_static(d) and d == 0 for d in (*dims, *counts)):
        ctx.decline("nothing to pool")
    if not 1 <= len(axes) <= 3:
        ctx.decline("only one to three axes can be pooled")
    if any(windows.base_dilation[axis] != 1 or windows.window_dilation[axis] != 1 for axis in axes):
        ctx.decline("dilated windows")
    kernel = tuple(size for axis in axes if is_static(size := windows.window_dimensions[axis]))
    if len(kernel) < len(axes):
        ctx.decline("windows of symbolic size")
    rest = [i for i in range(len(dims)) if i not in axes]
    space, strides = tuple(dims[i] for i in axes), [windows.window_strides[i] for i in axes]
    padding = [windows.padding[axis] for axis in axes]
    pairs = static_pairs(padding)
    if pairs is None:
        _check_same(ctx, padding, space, kernel, strides)
        fitted = unchanged_padding(((0, 0),) * len(axes))
    elif not all(0 <= p < size for pair, size in zip(pairs, kernel, strict=True) for p in pair):
        ctx.decline("negative padding, or padding as wide as a window")
    else:
        fitted = fit_windows(ctx, space, pairs, kernel, strides)
    return Pooling(windows, axes, rest, dims, counts, kernel, fitted, is_same=pairs is None)


def _check_same(
    ctx: Context, padding: Sequence[tuple[Dim, Dim]], space: Dims, kernel: Sequence[int], strides: Sequence[int]
) -> None:
    """Decline symbolic padding that is not SAME_UPPER, which may not be less than none."""
    if not is_same_padding(padding, space, kernel, strides):
        ctx.decline("padding that depends on symbolic dimensions")
    if any(stride > size for stride, size in zip(strides, kernel, strict=True)):
        ctx.decline("SAME_UPPER of strides beyond the window can be less than no padding")


def pool_sum(ctx: Context, x: Value, windows: Windows) -> Value:
    """The sum of each window, by AveragePool times the size of a window, in float32.

    Args:
      ctx: the context of the rule. It declines windows that AveragePool does not take.
      x: floats of at most 32 bits; other dtypes are declined.
      windows: the windows.
    """
    dtype = ctx.dtype(x)
    if not is_float(dtype) or dtype == np.float64:
        ctx.decline("only floats of single precision or less are averaged")
    ctx.require("AveragePool", np.float32)
    pool = _windows_pooled(ctx, windows)
    size = ctx.constant(math.prod(pool.kernel), dtype=np.float32)

    def average(value: Value, dims: Dims) -> Value:
        return ctx.op.Mul(pool.emit(ctx, "AveragePool", value, dims, count_include_pad=1), size)

    return ctx.cast(pool.run(ctx, ctx.cast(x, np.float32), average), dtype)


def pool_max(ctx: Context, x: Value, windows: Windows) -> Value:
    """The greatest element of each window, by MaxPool.

    Args:
      ctx: the context of the rule. It declines windows that MaxPool does not take.
      x: floats or integers.
      windows: the windows.
    """
    pool = _windows_pooled(ctx, windows)
    return ctx.cast(_max_pool(ctx, _poolable(ctx, x), pool), ctx.dtype(x))


def pool_min(ctx: Context, x: Value, windows: Windows) -> Value:
    """The least element of each window, by MaxPool of the negated floats, which is exact.

    Args:
      ctx: the context of the rule. It declines windows that MaxPool does not take.
      x: floats.
      windows: the windows.
    """
    dtype = ctx.dtype(x)
    if not is_float(dtype):
        ctx.decline("only floats can be negated without overflow")
    pool = _windows_pooled(ctx, windows)
    return ctx.cast(ctx.op.Neg(_max_pool(ctx, ctx.op.Neg(_poolable(ctx, x)), pool)), dtype)


def _poolable(ctx: Context, x: Value) -> Value:
    """`x` in a type of MaxPool."""
    wide = _pooled_type(ctx.dtype(x))
    ctx.require("MaxPool", wide)
    return ctx.cast(x, wide)


def _pooled_type(dtype: Dtype) -> Dtype:
    if is_float(dtype):
        return np.dtype(np.float64 if dtype == np.float64 else np.float32)
    return np.dtype(np.uint8) if is_bool(dtype) else dtype


def _max_pool(ctx: Context, x: Value, pool: Pooling) -> Value:
    """MaxPool; where an element is not finite and the target is not exact then, folds of slices.

    Both ways are in ONNX's layout, so that the transposes around them can meet those of their neighbours.
    """
    dtype = ctx.dtype(x)
    exact = ctx.guarantees("MaxPool", dtype, "nan") and ctx.guarantees("MaxPool", dtype, "inf")

    def maximum(value: Value, dims: Dims) -> Value:
        pooled = pool.emit(ctx, "MaxPool", value, dims)
        return pooled if exact or not is_float(dtype) else _unless_finite(ctx, value, pooled, pool)

    return pool.run(ctx, x, maximum)


def _unless_finite(ctx: Context, x: Value, pooled: Value, pool: Pooling) -> Value:
    """`pooled` if all elements of `x` are finite, else the same computed by folds of slices."""
    finite = ctx.op.Less(ctx.op.ReduceL1(x, keepdims=0, dims=()), ctx.constant(np.inf, like=x))
    otherwise, same = ctx.subgraph("not_finite"), ctx.subgraph("finite")
    folded = otherwise.jax(reduce_windows, x, monoid=MONOIDS["max"], shape=pool.arranged)
    then_branch, else_branch = same.graph([pooled]), otherwise.graph([folded])
    return ctx.op.If(finite, dims=ctx.dims(pooled), then_branch=then_branch, else_branch=else_branch)
