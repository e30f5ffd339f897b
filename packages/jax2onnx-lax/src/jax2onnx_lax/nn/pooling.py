"""The layer operations "nn.avg_pool", "nn.max_pool" and "nn.min_pool" as AveragePool and MaxPool.

A MaxPool need not propagate a NaN inside a window, as JAX does, and a window of nothing but -inf may give the lowest
finite number. What is pooled in a network is finite; `jax.lax.reduce_window` itself stays exact.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
from jax2onnx_core import Call, Composites, Context, Rules, Value

from jax2onnx_lax.dtypes import is_float
from jax2onnx_lax.nn.bindings import per_axis
from jax2onnx_lax.padding import Padding, canonical_padding, same_padding
from jax2onnx_lax.reduce._pooling import pooling
from jax2onnx_lax.reduce._windows import Windows

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
    rank, dims = len(window), ctx.known_dims(x)
    first = len(dims) - rank - (not channels_first)
    if not is_float(ctx.dtype(x)) or not 1 <= rank <= 3 or first < channels_first:
        ctx.decline("not images of floats with one to three spatial axes")
    axes = range(first, first + rank)
    if isinstance(padding, str):
        if padding not in ("SAME", "VALID"):
            ctx.decline(f"padding {padding!r}")
        pairs = same_padding(dims[first : first + rank], window, strides) if padding == "SAME" else ((0, 0),) * rank
    else:
        pairs = padding
    front, behind = (1,) * first, (1,) * (len(dims) - first - rank)
    ones = (1,) * len(dims)
    whole = (*((0, 0) for _ in front), *pairs, *((0, 0) for _ in behind))
    windows = Windows((*front, *window, *behind), (*front, *strides, *behind), whole, ones, ones)
    pool = pooling(ctx, windows, axes)
    return pool.run(ctx, x, lambda y, dims: pool.emit(ctx, op_type, y, dims, count_include_pad))
