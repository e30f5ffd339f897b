"""The layer operations "nn.avg_pool", "nn.max_pool" and "nn.min_pool" as AveragePool and MaxPool.

A MaxPool need not propagate a NaN inside a window, as JAX does, and a window of nothing but -inf may give the lowest
finite number. What is pooled in a network is finite; `jax.lax.reduce_window` itself stays exact.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
from jax2onnx_core import Call, Composites, Context, Rules, Value

from jax2onnx_lax.dtypes import is_float
from jax2onnx_lax.nn import _operands as operands
from jax2onnx_lax.nn._operands import channels_last, pad_attributes
from jax2onnx_lax.nn.bindings import per_axis
from jax2onnx_lax.padding import Padding, canonical_padding

__all__ = ["flax_poolings", "rules"]

rules = Rules()

#: The `padding` of Flax's poolings: "SAME", "VALID", or (low, high) for each spatial axis.
FlaxPadding = str | Sequence[tuple[int, int]]


def flax_poolings(avg_pool: str, max_pool: str, min_pool: str) -> Composites:
    """The composites of the pooling functions of NNX or of Linen, which have the same signatures.

    Args:
      avg_pool: the function `avg_pool`, as the target of a composite ("flax.nnx:avg_pool").
      max_pool: the function `max_pool`.
      min_pool: the function `min_pool`.
    """
    composites = Composites()

    @composites.call(avg_pool, name="nn.avg_pool", keep_under_vmap=True)
    def average(
        inputs: jax.Array,
        window_shape: Sequence[int],
        strides: Sequence[int] | None = None,
        padding: FlaxPadding = "VALID",
        count_include_pad: bool = True,
    ) -> Call:
        return _call(inputs, window_shape, strides, padding, count_include_pad=bool(count_include_pad))

    def extreme(
        inputs: jax.Array,
        window_shape: Sequence[int],
        strides: Sequence[int] | None = None,
        padding: FlaxPadding = "VALID",
    ) -> Call:
        return _call(inputs, window_shape, strides, padding)

    composites.call(max_pool, name="nn.max_pool", keep_under_vmap=True)(extreme)
    composites.call(min_pool, name="nn.min_pool", keep_under_vmap=True)(extreme)
    return composites


def _call(
    inputs: jax.Array, window: Sequence[int], strides: Sequence[int] | None, padding: FlaxPadding, **options: bool
) -> Call:
    rank = len(window)
    return Call(
        inputs,
        window=tuple(window),
        strides=per_axis(strides, rank),
        padding=canonical_padding(padding, rank),
        **options,
    )


@rules.lower("nn.avg_pool")
def avg_pool(
    ctx: Context, x: Value, *, window: tuple[int, ...], strides: tuple[int, ...], padding: Padding,
    count_include_pad: bool, channels_first: bool = False,
) -> Value:  # fmt: skip
    """The mean of each window.

    Declined: negative padding, or padding as wide as the window; axes without elements.

    Under vmap: `keep_under_vmap=True`.

    Args:
      ctx: the context of the rule.
      x: the images, [*batch, *space, C], with any number of batch axes (none too) and one to three spatial axes.
      window: the size of a window along each spatial axis.
      strides: the distance of two windows along each spatial axis.
      padding: "SAME", "VALID", or (low, high) for each spatial axis, less than the window.
      count_include_pad: whether the padding counts as zeros; if not, the mean is that of the elements of the image.
      channels_first: whether `x` is [*batch, C, *space].

    Returns:
      [*batch, *space', C], or [*batch, C, *space'] if `channels_first`.
    """
    counted = int(count_include_pad)
    return _pool(ctx, "AveragePool", x, window, strides, padding, channels_first, count_include_pad=counted)


@rules.lower("nn.max_pool", "nn.min_pool")
def extreme_pool(
    ctx: Context, x: Value, *, window: tuple[int, ...], strides: tuple[int, ...], padding: Padding,
    channels_first: bool = False,
) -> Value:  # fmt: skip
    """The greatest or the least element of each window; a NaN may be lost.

    Declined: negative padding, or padding as wide as the window; axes without elements.

    Under vmap: `keep_under_vmap=True`.

    Args:
      ctx: the context of the rule.
      x: the images, [*batch, *space, C], with any number of batch axes (none too) and one to three spatial axes.
      window: the size of a window along each spatial axis.
      strides: the distance of two windows along each spatial axis.
      padding: "SAME", "VALID", or (low, high) for each spatial axis, less than the window.
      channels_first: whether `x` is [*batch, C, *space].

    Returns:
      [*batch, *space', C], or [*batch, C, *space'] if `channels_first`.
    """
    if ctx.primitive == "nn.min_pool":
        return ctx.op.Neg(_pool(ctx, "MaxPool", ctx.op.Neg(x), window, strides, padding, channels_first))
    return _pool(ctx, "MaxPool", x, window, strides, padding, channels_first)


def _pool(
    ctx: Context, op_type: str, x: Value, window: tuple[int, ...], strides: tuple[int, ...], padding: Padding,
    channels_first: bool, count_include_pad: int | None = None,
) -> Value:  # fmt: skip
    """One pooling operator between two transposes; declines images, windows and padding that ONNX's operators do not take."""
    ctx.require(op_type, x)
    _check_window(ctx, x, window, padding)
    rank, shape = len(window), ctx.avals_out[0].shape
    images = operands.with_one_batch_axis(ctx, x, rank)
    images = images if channels_first else ctx.transpose(images, operands.channels_first(rank))
    batch, _, *space = ctx.known_dims(images)
    fitted, pads, auto_pad = pad_attributes(ctx, padding, space, window, strides, (1,) * rank)
    image = shape[-rank - 1 :] if channels_first else (shape[-1], *shape[-rank - 1 : -1])
    y = ctx.op(
        op_type, images, kernel_shape=window, strides=strides, pads=pads, auto_pad=auto_pad,
        count_include_pad=count_include_pad, dims=fitted.dims((batch, *image)),
    )  # fmt: skip
    y = fitted.cut(ctx, y, (batch, *image))
    y = y if channels_first else ctx.transpose(y, channels_last(rank))
    return ctx.squeeze(y, [0]) if len(shape) == rank + 1 else ctx.reshape(y, shape)


def _check_window(ctx: Context, x: Value, window: tuple[int, ...], padding: Padding) -> None:
    dims, shape, rank = ctx.known_dims(x), ctx.avals_out[0].shape, len(window)
    if not is_float(ctx.dtype(x)) or not 1 <= rank <= 3 or len(dims) <= rank:
        ctx.decline("not images of floats with one to three spatial axes")
    if isinstance(padding, str):
        if padding not in ("SAME", "VALID"):
            ctx.decline(f"padding {padding!r}")
    elif any(not 0 <= p < size for pair, size in zip(padding, window, strict=True) for p in pair):
        ctx.decline("negative padding, or padding as wide as a window")
    if 0 in [d for d in (*dims, *shape) if isinstance(d, int)]:
        ctx.decline("nothing to pool")
