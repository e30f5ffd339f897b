"""The layer operations "nn.avg_pool", "nn.max_pool" and "nn.min_pool": AveragePool and MaxPool.

A MaxPool need not propagate a NaN inside a window, as JAX does, and a window of nothing but -inf may give the lowest
finite number. What is pooled in a network is finite; `jax.lax.reduce_window` itself stays exact.

All take `x`, floats of shape [B, *space, C] or [*space, C] with one to three spatial axes, and give the same with
*space', by the parameters

* `window`, `strides`: one number for each spatial axis;
* `padding`: "SAME", "VALID", or (low, high) for each spatial axis, less than the window.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
from jax2onnx_core import Call, Context, Rules, Value
from jax2onnx_core.jaxprs import Dims

from jax2onnx_lax.dtypes import is_float
from jax2onnx_lax.nn.operands import channels_first, channels_last, pad_attributes, per_axis
from jax2onnx_lax.padding import Padding, canonical_padding

__all__ = ["FlaxPadding", "pooling_call", "rules"]

rules = Rules()

#: The `padding` of Flax's poolings: "SAME", "VALID" or pairs.
FlaxPadding = str | Sequence[tuple[int, int]]


def pooling_call(
    inputs: jax.Array, window: Sequence[int], strides: Sequence[int] | None, padding: FlaxPadding, **options: bool
) -> Call:
    """The call of one of these operations for the arguments of a pooling of Flax."""
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
    count_include_pad: bool,
) -> Value:  # fmt: skip
    """The mean of each window, whose padding counts as zeros if `count_include_pad`, else not at all."""
    return _pool(ctx, "AveragePool", x, window, strides, padding, count_include_pad=int(count_include_pad))


@rules.lower("nn.max_pool")
def max_pool(ctx: Context, x: Value, *, window: tuple[int, ...], strides: tuple[int, ...], padding: Padding) -> Value:
    """The greatest element of each window."""
    return _pool(ctx, "MaxPool", x, window, strides, padding)


@rules.lower("nn.min_pool")
def min_pool(ctx: Context, x: Value, *, window: tuple[int, ...], strides: tuple[int, ...], padding: Padding) -> Value:
    """The least element of each window."""
    return ctx.op.Neg(_pool(ctx, "MaxPool", ctx.op.Neg(x), window, strides, padding))


def _pool(
    ctx: Context, op_type: str, x: Value, window: tuple[int, ...], strides: tuple[int, ...], padding: Padding,
    count_include_pad: int | None = None,
) -> Value:  # fmt: skip
    """One pooling operator between two transposes; declines what ONNX does not pool."""
    ctx.require(op_type, x)
    dims, shape, rank = ctx.known_dims(x), ctx.avals_out[0].shape, len(window)
    _check_window(ctx, x, window, padding)
    batched = len(dims) == rank + 2
    images = x if batched else ctx.unsqueeze(x, [0])
    fitted, pads, auto_pad = pad_attributes(ctx, padding, dims[-rank - 1 : -1], window, strides, (1,) * rank)
    result = _channels_first_dims(shape, batched)
    y = ctx.op(
        op_type, ctx.transpose(images, channels_first(rank)), kernel_shape=window, strides=strides, pads=pads,
        auto_pad=auto_pad, count_include_pad=count_include_pad, dims=fitted.dims(result),
    )  # fmt: skip
    y = ctx.transpose(fitted.cut(ctx, y, result), channels_last(rank))
    return y if batched else ctx.squeeze(y, [0])


def _check_window(ctx: Context, x: Value, window: tuple[int, ...], padding: Padding) -> None:
    dims, shape, rank = ctx.known_dims(x), ctx.avals_out[0].shape, len(window)
    if not is_float(ctx.dtype(x)) or not 1 <= rank <= 3 or len(dims) not in (rank + 1, rank + 2):
        ctx.decline("not images of floats with one to three spatial axes")
    if isinstance(padding, str):
        if padding not in ("SAME", "VALID"):
            ctx.decline(f"padding {padding!r}")
    elif any(not 0 <= p < size for pair, size in zip(padding, window, strict=True) for p in pair):
        ctx.decline("negative padding, or padding as wide as a window")
    if 0 in [d for d in (*dims, *shape) if isinstance(d, int)]:
        ctx.decline("nothing to pool")


def _channels_first_dims(shape: Dims, batched: bool) -> Dims:
    batch, *space, channels = shape if batched else (1, *shape)
    return (batch, channels, *space)
