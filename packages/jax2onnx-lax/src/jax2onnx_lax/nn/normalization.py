"""The layer operations "nn.layer_norm", "nn.rms_norm", "nn.batch_norm" and "nn.group_norm".

Those that compute statistics are one normalization operator; batch norm, whose statistics are constants, is Mul and Add.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from jax2onnx_core import Context, Rules, Value
from jax2onnx_core.jaxprs import Dims, is_static
from jax2onnx_graph.build.builder import Array
from jax2onnx_graph.build.final_names import common_name
from jax2onnx_graph.forms import Form

from jax2onnx_lax._compat import max_dim
from jax2onnx_lax.nn._operands import (
    axes_from_start,
    channels_first,
    channels_last,
    filled,
    static_sizes,
    with_one_batch_axis,
)

__all__ = ["rules"]

rules = Rules()


@rules.lower("nn.layer_norm")
def layer_norm(
    ctx: Context, x: Value, scale: Value | None, bias: Value | None, *, axes: int = 1, epsilon: float
) -> Value:
    """`(x - mean) / sqrt(variance + epsilon) * scale + bias`, with mean and variance over the last axes.

    Declined: symbolic sizes C where `scale` is None.

    Under vmap: `keep_under_vmap=(0,)`.

    Args:
      ctx: the context of the rule.
      x: the inputs, [..., *C].
      scale: [*C], or None.
      bias: [*C], or None.
      axes: the number of axes C, at least 1.
      epsilon: a number that is added to the variance.

    Returns:
      An array of the shape of `x`.
    """
    ctx.require("LayerNormalization", x)
    scale = _ones(ctx, x, axes) if scale is None else scale
    return ctx.op.LayerNormalization(x, scale, *([] if bias is None else [bias]), axis=-axes, epsilon=epsilon)


@rules.lower("nn.rms_norm")
def rms_norm(
    ctx: Context, x: Value, scale: Value | None, bias: Value | None = None, *, axes: int = 1, epsilon: float
) -> Value:
    """`x / sqrt(mean(x²) + epsilon) * scale + bias`, with the mean over the last axes.

    Declined before opset 23: half precision, which needs statistics in float32.

    Under vmap: `keep_under_vmap=(0,)`.

    Args:
      ctx: the context of the rule.
      x: the inputs, [..., *C].
      scale: [*C], or None.
      bias: [*C], or None; may be left out.
      axes: the number of axes C, at least 1.
      epsilon: a number that is added to the mean.

    Returns:
      An array of the shape of `x`.
    """
    ctx.require("RMSNormalization", x, since=23)
    y = ctx.op.RMSNormalization(x, _ones(ctx, x, axes) if scale is None else scale, axis=-axes, epsilon=epsilon)
    return y if bias is None else ctx.op.Add(y, bias)


@rules.lower("nn.rms_norm")
def rms_norm_before_23(
    ctx: Context, x: Value, scale: Value | None, bias: Value | None = None, *, axes: int = 1, epsilon: float
) -> Value:
    """`nn.rms_norm` in separate operators before opset 23, in the form that the target fuses if the fusion is accurate."""
    dtype = ctx.dtype(x)
    if ctx.opset >= 23 or dtype.itemsize < 4:
        ctx.pass_on("there is an operator, or half precision needs float32 statistics")
    fused = Form.RMS_NORMALIZATION_BY_POWER
    if ctx.prefers(Form.RMS_NORMALIZATION_BY_PRODUCT, fused) is fused and ctx.guarantees(
        "RMSNormalization", dtype, "accurate"
    ):
        square = ctx.op.Pow(x, ctx.constant(2.0, like=x))
    else:
        square = ctx.op.Mul(x, x)
    mean = ctx.op.ReduceMean(square, axes_from_start(ctx, square, range(-axes, 0)))
    y = ctx.op.Div(x, ctx.op.Sqrt(ctx.op.Add(mean, ctx.constant(epsilon, like=x))))
    y = y if scale is None else ctx.op.Mul(y, scale)
    return y if bias is None else ctx.op.Add(y, bias)


def _ones(ctx: Context, x: Value, axes: int) -> Value:
    return filled(ctx, static_sizes(ctx, ctx.known_dims(x)[-axes:]), 1, like=x)


@rules.lower("nn.batch_norm")
def batch_norm(
    ctx: Context, x: Value, mean: Value, variance: Value, scale: Value | None, bias: Value | None, *, axis: int,
    epsilon: float,
) -> Value:  # fmt: skip
    """Batch norm at inference: `(x - mean) / sqrt(variance + epsilon) * scale + bias` with given mean and variance.

    The other operands than `x` are folded into one factor and one summand, which a convolution before it takes into its
    weights.

    Declined: other operands than `x` that are no constants; a variance that is not positive with `epsilon` added.

    Under vmap: `keep_under_vmap=(0,)`, if `axis` is negative.

    Args:
      ctx: the context of the rule.
      x: the inputs, [..., C, ...], with the channels at `axis`.
      mean: [C].
      variance: [C].
      scale: [C], or None.
      bias: [C], or None.
      axis: the axis of the channels; negative from the end.
      epsilon: a number that is added to the variance.

    Returns:
      An array of the shape of `x`.
    """
    scales, biases = ([value] if value is not None else [] for value in (scale, bias))

    numbers = ctx.known(variance)
    if numbers is not None and not (numbers + numbers.dtype.type(epsilon) > 0).all():
        ctx.decline("a variance that is not positive")

    def factor(variance: Array, *scale: Array) -> Array:
        with np.errstate(divide="ignore", invalid="ignore"):
            factor = 1 / np.sqrt(variance.astype(np.float64) + epsilon)
        return factor * scale[0] if scale else factor

    def summand(mean: Array, variance: Array, *others: Array) -> Array:
        result = -mean * factor(variance, *others[: len(scales)])
        return result + others[-1] if biases else result

    trailing = (1,) * (-axis - 1 if axis < 0 else len(ctx.known_dims(x)) - axis - 1)

    def folded(function: Callable[..., Array], operands: Sequence[Value], names: Sequence[Value]) -> Value:
        """A constant [C, 1, ...] named after `names`: the layer's own scale or bias, or a statistic where it has none."""
        dims = (math.prod(static_sizes(ctx, ctx.known_dims(variance))), *trailing)
        result = ctx.fold(
            lambda *arrays: function(*arrays).reshape(dims), *operands, dims=dims, dtype=ctx.dtype(x), name=common_name(names)
        )  # fmt: skip
        return ctx.decline("the statistics are not constants") if result is None else result

    scaled = ctx.op.Mul(x, folded(factor, [variance, *scales], scales or [variance]))
    return ctx.op.Add(scaled, folded(summand, [mean, variance, *scales, *biases], biases or [mean]))


@rules.lower("nn.group_norm")
def group_norm(
    ctx: Context, x: Value, scale: Value | None, bias: Value | None, *, groups: int, epsilon: float,
    space: int | None = None,
) -> Value:  # fmt: skip
    """Group norm: `(x - mean) / sqrt(variance + epsilon) * scale + bias`, with mean and variance of each image over the
    spatial axes and the channels of a group. With as many groups as channels it is instance norm.

    InstanceNormalization of [B, groups, ·] is used: GroupNormalization has its present meaning from opset 21 only, and
    is slower where a runtime expands it.

    Declined: a symbolic number of channels.

    Under vmap: `keep_under_vmap=(0,)`, if `space` is given.

    Args:
      ctx: the context of the rule.
      x: the images, [B, *space, C], or [*batch, C, *space] if `space` is given.
      scale: [C], or None.
      bias: [C], or None.
      groups: the number of groups of neighbouring channels; a divisor of C.
      epsilon: a number that is added to the variance.
      space: the number of spatial axes where the channels come before them, else None.

    Returns:
      An array of the shape of `x`.
    """
    ctx.require("InstanceNormalization", x)
    dims = ctx.known_dims(x)
    rank = len(dims) - 2 if space is None else space
    images = ctx.transpose(x, channels_first(rank)) if space is None else with_one_batch_axis(ctx, x, rank)
    (channels,) = static_sizes(ctx, ctx.known_dims(images)[1:2])
    if groups == channels and rank > 0:
        weights = (filled(ctx, groups, 1, like=x) if scale is None else scale,
                   filled(ctx, groups, 0, like=x) if bias is None else bias)  # fmt: skip
        y = _with_shape_of(ctx, _instance_norm(ctx, images, *weights, epsilon), images)
        return ctx.transpose(y, channels_last(rank)) if space is None else ctx.reshape(y, dims)
    y = _normalised_groups(ctx, images, groups, epsilon)
    y = ctx.transpose(y, channels_last(rank)) if space is None else _with_shape_of(ctx, y, x)
    weights_dims = (channels, *[1] * (space or 0))
    y = y if scale is None else ctx.op.Mul(y, ctx.reshape(scale, weights_dims))
    return y if bias is None else ctx.op.Add(y, ctx.reshape(bias, weights_dims))


def _normalised_groups(ctx: Context, x: Value, groups: int, epsilon: float) -> Value:
    """`x` [B, C, *space], each group of channels of each image with mean 0 and variance 1."""
    batch, channels, *space = ctx.known_dims(x)
    y = ctx.reshape(x, (batch, groups, math.prod(space) * (channels // groups)))
    ones, zeros = filled(ctx, groups, 1, like=x), filled(ctx, groups, 0, like=x)
    return _with_shape_of(ctx, _instance_norm(ctx, y, ones, zeros, epsilon), x)


def _instance_norm(ctx: Context, x: Value, scale: Value, bias: Value, epsilon: float) -> Value:
    """`x` [B, C, *space], each channel of each image with mean 0 and variance 1, then scaled and shifted; reshaped where it may be empty.

    ONNX does not say what images without pixels give, and runtimes may read the first one: these become no images of one pixel.
    """
    batch, channels, *space = ctx.known_dims(x)
    if not all(map(ctx.is_positive, space)):
        pixels = math.prod(space)
        some = max_dim(pixels, 1)
        dims = (batch * pixels // some, channels, some)
        x = ctx.op.Reshape(x, ctx.shape((-1, channels, some)), dims=dims)
    return ctx.op.InstanceNormalization(x, scale, bias, epsilon=epsilon, dims=ctx.known_dims(x))


def _with_shape_of(ctx: Context, y: Value, like: Value) -> Value:
    """`y` reshaped to the dimensions of `like`: with several symbols the Shape of that is one node, where their
    expressions may be many.
    """
    dims: Dims = ctx.known_dims(like)
    if dims == ctx.known_dims(y):
        return y
    if sum(not is_static(d) for d in dims[1:]) < 2:
        return ctx.reshape(y, dims)
    allowzero = None if all(map(ctx.is_positive, dims)) else 1
    return ctx.op.Reshape(y, ctx.op.Shape(like), dims=dims, allowzero=allowzero)
