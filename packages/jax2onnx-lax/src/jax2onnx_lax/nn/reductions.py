"""Functions of `jax.nn` and `jax.numpy` that reduce over an axis, as ONNX's own operators."""

from __future__ import annotations

__all__ = ["composites", "rules"]

from collections.abc import Sequence
from typing import Any

import numpy as np
from jax2onnx_core import Call, Composites, Rules

from jax2onnx_lax._compat import surely_positive
from jax2onnx_lax.nn.activations import is_float, needs

composites = Composites()
rules = Rules()


def _negative(axis: Any, rank: int) -> int | None:
    """`axis` counted from the end, so that it stays right under a further leading axis; None if it is not one."""
    if not isinstance(axis, int) or isinstance(axis, bool) or not -rank <= axis < rank:
        return None
    return axis if axis < 0 else axis - rank


def _negative_axes(axis: Any, rank: int) -> tuple[int, ...] | None:
    """All of `axis` (None for every axis) counted from the end; None if one is not an axis."""
    if axis is None:
        return tuple(range(-rank, 0))
    axes = [_negative(a, rank) for a in (axis if isinstance(axis, Sequence) else [axis])]
    return tuple(sorted(a for a in axes if a is not None)) if None not in axes else None


@composites.call("jax.nn:softmax", name="jax.nn.softmax", keep_under_vmap=True)
def softmax(x: Any, axis: Any = -1, where: Any = None) -> Call | None:
    if not is_float(x) or where is not None or (negative := _negative(axis, x.ndim)) is None:
        return None
    return Call(x, axis=negative)


@composites.call("jax.nn:log_softmax", name="jax.nn.log_softmax", keep_under_vmap=True)
def log_softmax(x: Any, axis: Any = -1, where: Any = None) -> Call | None:
    return softmax(x, axis, where)


@rules.lower("jax.nn.softmax")
def lower_softmax(ctx: Any, x: Any, *, axis: int) -> Any:
    needs(ctx, "Softmax", x)
    _decline_leading_axis(ctx, x, axis)
    return ctx.op.Softmax(x, axis=axis)


@rules.lower("jax.nn.log_softmax")
def lower_log_softmax(ctx: Any, x: Any, *, axis: int) -> Any:
    needs(ctx, "LogSoftmax", x)
    _decline_leading_axis(ctx, x, axis)
    if ctx.dtype(x) == np.float64:
        ctx.decline("the double precision kernel of LogSoftmax turns an infinite logit into -inf, not NaN")
    return ctx.op.LogSoftmax(x, axis=axis)


def _decline_leading_axis(ctx: Any, x: Any, axis: int) -> None:
    """ONNX Runtime transposes for any axis but the last: over the first axis that costs 9 times the primitives."""
    if len(ctx.dims(x)) > 1 and axis == -len(ctx.dims(x)):
        ctx.decline("over the first axis the primitives are faster")


def _decline_empty(ctx: Any, x: Any) -> None:
    """ONNX Runtime hands an empty array on unreduced, or refuses it."""
    if not all(map(surely_positive, ctx.dims(x))):
        ctx.decline("the array may be empty")


@composites.call("jax.nn:logsumexp", name="jax.nn.logsumexp", keep_under_vmap=True)
def logsumexp(
    a: Any, axis: Any = None, b: Any = None, keepdims: bool = False, return_sign: bool = False, where: Any = None
) -> Call | None:
    if not is_float(a) or b is not None or return_sign or where is not None or not a.ndim:
        return None
    axes = _negative_axes(axis, a.ndim)
    return None if axes is None else Call(a, axes=axes, keepdims=bool(keepdims))


@rules.lower("jax.nn.logsumexp")
def lower_logsumexp(ctx: Any, a: Any, *, axes: tuple[int, ...], keepdims: bool) -> Any:
    needs(ctx, "ReduceLogSumExp", a)
    _decline_empty(ctx, a)
    return ctx.op.ReduceLogSumExp(a, ctx.ints(axes), keepdims=int(keepdims))


@composites.call("jax.nn:standardize", name="jax.nn.standardize", keep_under_vmap=True)
def standardize(
    x: Any,
    axis: Any = -1,
    mean: Any = None,
    variance: Any = None,
    epsilon: Any = 1e-5,
    where: Any = None,
    **algorithm: Any,
) -> Call | None:
    if not is_float(x) or mean is not None or variance is not None or where is not None:
        return None
    axes = _negative_axes(axis, x.ndim)
    if axes is None or axes != tuple(range(axes[0], 0)) or not isinstance(epsilon, float):
        return None
    if not all(isinstance(x.shape[a], int) for a in axes):
        return None
    return Call(x, axes=axes, epsilon=epsilon)


@rules.lower("jax.nn.standardize")
def lower_standardize(ctx: Any, x: Any, *, axes: tuple[int, ...], epsilon: float) -> Any:
    """`LayerNormalization` with a scale of ones."""
    needs(ctx, "LayerNormalization", x)
    _decline_empty(ctx, x)
    scale = ctx.constant(np.ones([ctx.dims(x)[a] for a in axes]), like=x)
    return ctx.op.LayerNormalization(x, scale, axis=axes[0], epsilon=epsilon)


@composites.call("jax.numpy:mean", name="jax.numpy.mean", keep_under_vmap=True)
def mean(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False, *, where: Any = None
) -> Call | None:
    # Half precision is summed in float32 by JAX, so it is left to the primitives.
    if not is_float(a) or a.dtype.itemsize < 4 or dtype is not None or out is not None or where is not None:
        return None
    axes = _negative_axes(axis, a.ndim)
    return Call(a, axes=axes, keepdims=bool(keepdims)) if axes else None


@rules.lower("jax.numpy.mean")
def lower_mean(ctx: Any, a: Any, *, axes: tuple[int, ...], keepdims: bool) -> Any:
    needs(ctx, "ReduceMean", a)
    _decline_empty(ctx, a)
    return ctx.op.ReduceMean(a, ctx.ints(axes), keepdims=int(keepdims))


@rules.lower("jax.numpy.mean")
def lower_mean_over_space(ctx: Any, a: Any, *, axes: tuple[int, ...], keepdims: bool) -> Any:
    """The mean over the space of NHWC images: `GlobalAveragePool` behind a transpose takes a third of the
    time of `ReduceMean`, and the transpose meets that of a convolution before it."""
    dims = ctx.dims(a)
    if axes != (-3, -2) or len(dims) != 4:
        ctx.decline("not the spatial axes of NHWC images")
    needs(ctx, "GlobalAveragePool", a)
    _decline_empty(ctx, a)
    if ctx.dtype(a) != np.float32:
        ctx.decline("not float32")
    pooled = ctx.op.GlobalAveragePool(ctx.transpose(a, (0, 3, 1, 2)), dims=(dims[0], dims[3], 1, 1))
    if keepdims:
        return ctx.transpose(pooled, (0, 2, 3, 1))
    return ctx.op.Flatten(pooled)
