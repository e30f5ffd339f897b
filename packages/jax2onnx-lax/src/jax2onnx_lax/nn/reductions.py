"""Functions of `jax.nn` and `jax.numpy` that reduce over axes, as ONNX's own operators."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike, DTypeLike
from jax2onnx_core import Call, Composites, Context, Replacement, Rules, Value, bind_composite
from jax2onnx_core.jaxprs import is_positive, is_static
from jax2onnx_graph.assumptions import Assumption
from jax2onnx_graph.forms import Form

from jax2onnx_lax.dtypes import is_float_array
from jax2onnx_lax.nn._operands import axes_from_start, filled, static_sizes
from jax2onnx_lax.nn.bindings import axes_from_end, axis_from_end

__all__ = ["composites", "rules"]

composites = Composites()
rules = Rules()


def _require_elements(ctx: Context, op_type: str, x: Value) -> None:
    """Decline where `x` may be empty and the target does not reduce an empty array as JAX does."""
    if not all(map(is_positive, ctx.known_dims(x))) and not ctx.guarantees(op_type, ctx.dtype(x), "empty"):
        ctx.decline("the array may be empty")


# -- softmax --------------------------------------------------------------------------------


@composites.call("jax.nn:softmax", name="jax.nn.softmax", keep_under_vmap=True)
def softmax(x: jax.Array, axis: int | tuple[int, ...] = -1, where: jax.Array | None = None) -> Replacement | None:
    if not is_float_array(x) or where is not None or (from_end := axis_from_end(axis, x.ndim)) is None:
        return None
    return Replacement(_softmax(x, from_end))


def _whole_softmax(x: jax.Array, axis: int) -> jax.Array:
    """The softmax as one operation."""

    def meaning() -> jax.Array:
        exponentials = jnp.exp(x - lax.stop_gradient(jnp.max(x, axis, keepdims=True, initial=-jnp.inf)))
        return exponentials / exponentials.sum(axis, keepdims=True)

    result: jax.Array = bind_composite("jax.nn.softmax", Call(x, axis=axis), meaning, keep_under_vmap=True)
    return result


def _jvp_of_softmax(axis: int, primals: tuple[jax.Array], tangents: tuple[jax.Array]) -> tuple[jax.Array, jax.Array]:
    """By the result, so that the exponentials are not computed beside it; as JAX has it with `jax_softmax_custom_jvp`."""
    y, tangent = _softmax(primals[0], axis), tangents[0]
    return y, y * (tangent - (y * tangent).sum(axis, keepdims=True))


# It stays whole where it is differentiated.
_softmax: jax.custom_jvp[jax.Array] = jax.custom_jvp(_whole_softmax, nondiff_argnums=(1,))
_softmax.defjvp(_jvp_of_softmax)


@composites.call("jax.nn:log_softmax", name="jax.nn.log_softmax", keep_under_vmap=True)
def log_softmax(x: jax.Array, axis: int | tuple[int, ...] = -1, where: jax.Array | None = None) -> Call | None:
    if not is_float_array(x) or where is not None or (from_end := axis_from_end(axis, x.ndim)) is None:
        return None
    return Call(x, axis=from_end)


@rules.lower("jax.nn.softmax")
def lower_softmax(ctx: Context, x: Value, *, axis: int) -> Value:
    ctx.require("Softmax", x)
    _decline_first_axis(ctx, x, axis, Form.SOFTMAX_FIRST_AXIS, Form.SOFTMAX_BY_FORMULA)
    return ctx.op.Softmax(x, axis=axis)


@rules.lower("jax.nn.log_softmax")
def lower_log_softmax(ctx: Context, x: Value, *, axis: int) -> Value:
    ctx.require("LogSoftmax", x)
    _decline_first_axis(ctx, x, axis, Form.LOG_SOFTMAX_FIRST_AXIS, Form.LOG_SOFTMAX_BY_FORMULA)
    if not ctx.guarantees("LogSoftmax", ctx.dtype(x), "inf"):
        ctx.decline(f"LogSoftmax of {ctx.dtype(x)} does not turn an infinite logit into NaN")
    return ctx.op.LogSoftmax(x, axis=axis)


def _decline_first_axis(ctx: Context, x: Value, axis: int, operator: Form, primitives: Form) -> None:
    """Decline the first of several axes where the target computes the primitives faster than the operator."""
    rank = len(ctx.known_dims(x))
    if rank > 1 and axis == -rank and ctx.prefers(operator, primitives) is primitives:
        ctx.pass_on("over the first axis the primitives are faster")


# -- sums and means -------------------------------------------------------------------------


@composites.call("jax.nn:logsumexp", name="jax.nn.logsumexp", keep_under_vmap=True)
def logsumexp(
    a: jax.Array, axis: int | tuple[int, ...] | None = None, b: jax.Array | None = None, keepdims: bool = False,
    return_sign: bool = False, where: jax.Array | None = None,
) -> Call | None:  # fmt: skip
    if not is_float_array(a) or b is not None or return_sign or where is not None or not a.ndim:
        return None
    axes = axes_from_end(axis, a.ndim)
    return None if axes is None else Call(a, axes=axes, keepdims=bool(keepdims))


@rules.lower("jax.nn.logsumexp")
def lower_logsumexp(ctx: Context, a: Value, *, axes: tuple[int, ...], keepdims: bool) -> Value:
    ctx.require("ReduceLogSumExp", a)
    _require_elements(ctx, "ReduceLogSumExp", a)
    if not ctx.guarantees("ReduceLogSumExp", ctx.dtype(a), "nan"):
        ctx.decline("ReduceLogSumExp can lose a NaN")
    return ctx.op.ReduceLogSumExp(a, axes_from_start(ctx, a, axes), keepdims=int(keepdims))


@rules.lower("jax.nn.logsumexp")
def lower_logsumexp_by_primitives(ctx: Context, a: Value, *, axes: tuple[int, ...], keepdims: bool) -> Value:
    """Log-sum-exp in separate operators, where these are faster, except in half precision, which JAX sums in float32."""
    if ctx.prefers(Form.REDUCE_LOG_SUM_EXP, Form.LOG_SUM_EXP_BY_FORMULA) is Form.REDUCE_LOG_SUM_EXP:
        ctx.pass_on("ReduceLogSumExp is as fast")
    if ctx.dtype(a).itemsize < 4:
        ctx.pass_on("half precision")
    for op_type in ("ReduceMax", "ReduceSum"):
        _require_elements(ctx, op_type, a)
    limits = np.finfo(ctx.dtype(a))
    # Any finite number near the greatest element will do: what is not finite comes through the sum.
    places = axes_from_start(ctx, a, axes)
    shift = ctx.op.ReduceMax(a, places, keepdims=1)
    if not ctx.assumes(Assumption.FINITE):
        shift = ctx.op.Clip(shift, ctx.constant(limits.min, like=a), ctx.constant(limits.max, like=a))
    total = ctx.op.ReduceSum(ctx.op.Exp(ctx.op.Sub(a, shift)), places, keepdims=1)
    result = ctx.op.Add(ctx.op.Log(total), shift)
    return result if keepdims else ctx.squeeze(result, axes)


@composites.call("jax.nn:standardize", name="jax.nn.standardize", keep_under_vmap=(0,))
def standardize(
    x: jax.Array, axis: int | tuple[int, ...] | None = -1, mean: jax.Array | None = None,
    variance: jax.Array | None = None, epsilon: ArrayLike = 1e-5, where: jax.Array | None = None, **algorithm: object,
) -> Call | None:  # fmt: skip
    if not is_float_array(x) or mean is not None or variance is not None or where is not None:
        return None
    axes = axes_from_end(axis, x.ndim)
    if axes is None or axes != tuple(range(axes[0], 0)) or np.ndim(epsilon):
        return None
    return Call(x, epsilon, axes=axes) if all(is_static(x.shape[a]) for a in axes) else None


@rules.lower("jax.nn.standardize")
def lower_standardize(ctx: Context, x: Value, epsilon: Value, *, axes: tuple[int, ...]) -> Value:
    """`LayerNormalization` with a scale of ones."""
    known = ctx.known(epsilon)
    if known is None:
        ctx.decline("epsilon is no constant")
    ctx.require("LayerNormalization", x)
    _require_elements(ctx, "LayerNormalization", x)
    scale = filled(ctx, static_sizes(ctx, ctx.known_dims(x)[axes[0] :]), 1, like=x)
    return ctx.op.LayerNormalization(x, scale, axis=axes[0], epsilon=float(known))


@composites.call("jax.numpy:mean", name="jax.numpy.mean", keep_under_vmap=True)
def mean(
    a: jax.Array, axis: int | Sequence[int] | None = None, dtype: DTypeLike | None = None, out: None = None,
    keepdims: bool = False, *, where: jax.Array | None = None,
) -> Call | None:  # fmt: skip
    # Half precision is summed in float32 by JAX, so it is left to the primitives.
    if not is_float_array(a) or a.dtype.itemsize < 4 or out is not None or where is not None:
        return None
    if dtype is not None and np.dtype(dtype) != a.dtype:
        return None
    axes = axes_from_end(axis, a.ndim)
    return Call(a, axes=axes, keepdims=bool(keepdims)) if axes else None


@rules.lower("jax.numpy.mean")
def lower_mean(ctx: Context, a: Value, *, axes: tuple[int, ...], keepdims: bool) -> Value:
    ctx.require("ReduceMean", a)
    _require_elements(ctx, "ReduceMean", a)
    return ctx.op.ReduceMean(a, axes_from_start(ctx, a, axes), keepdims=int(keepdims))


@rules.lower("jax.numpy.mean")
def lower_mean_over_space(ctx: Context, a: Value, *, axes: tuple[int, ...], keepdims: bool) -> Value:
    """The mean over the space of images [B, H, W, C], by GlobalAveragePool where the target prefers it: the transpose
    before it meets that of a convolution.
    """
    if axes != (-3, -2) or len(ctx.known_dims(a)) != 4 or ctx.dtype(a) != np.float32:
        ctx.pass_on("not the spatial axes of float32 images with the channels last")
    mean, pool = Form.REDUCE_MEAN_CHANNELS_LAST, "GlobalAveragePool"
    if ctx.prefers(mean, Form.GLOBAL_AVERAGE_POOL_OF_TRANSPOSE) is mean:
        ctx.pass_on("ReduceMean is as fast")
    ctx.require(pool, a)
    _require_elements(ctx, pool, a)
    batch, _, _, channels = ctx.known_dims(a)
    pooled = ctx.op.GlobalAveragePool(ctx.transpose(a, (0, 3, 1, 2)), dims=(batch, channels, 1, 1))
    return ctx.transpose(pooled, (0, 2, 3, 1)) if keepdims else ctx.op.Flatten(pooled)
