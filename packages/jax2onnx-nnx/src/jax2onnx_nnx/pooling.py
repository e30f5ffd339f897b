"""Flax's poolings, which NNX and Linen share, as `AveragePool` and `MaxPool`.

`max_pool` and `min_pool` are one `MaxPool` each. Its kernel in ONNX Runtime skips NaN, so a NaN inside a window does
not reach the result as it does in JAX, and a window of nothing but -inf gives the lowest finite number. What is pooled in
a network is finite; `jax.lax.reduce_window` itself stays exact.
"""

from __future__ import annotations

__all__ = ["composites", "rules"]

from typing import Any

from jax2onnx_core import Call, Composites, Rules
from jax2onnx_lax.nn.activations import is_float, needs

from jax2onnx_nnx.conv import pads, to_nchw, to_nhwc

composites = Composites()
rules = Rules()


@composites.call("flax.nnx:avg_pool", "flax.linen:avg_pool", name="nnx.avg_pool")
def avg_pool(
    inputs: Any, window_shape: Any, strides: Any = None, padding: Any = "VALID", count_include_pad: bool = True
) -> Call | None:
    call = _pooling(inputs, window_shape, strides, padding)
    if call is not None:
        call.params["count_include_pad"] = bool(count_include_pad)
    return call


@composites.call("flax.nnx:max_pool", "flax.linen:max_pool", name="nnx.max_pool")
def max_pool(inputs: Any, window_shape: Any, strides: Any = None, padding: Any = "VALID") -> Call | None:
    return _pooling(inputs, window_shape, strides, padding)


@composites.call("flax.nnx:min_pool", "flax.linen.pooling:min_pool", name="nnx.min_pool")
def min_pool(inputs: Any, window_shape: Any, strides: Any = None, padding: Any = "VALID") -> Call | None:
    return _pooling(inputs, window_shape, strides, padding)


def _pooling(inputs: Any, window_shape: Any, strides: Any, padding: Any) -> Call | None:
    """The call of a pooling; None unless images of floats, with or without a batch axis, are pooled."""
    rank = len(window_shape)
    if not is_float(inputs) or not 1 <= rank <= 3 or inputs.ndim not in (rank + 1, rank + 2):
        return None
    if not isinstance(padding, str):
        padding = tuple(tuple(pair) for pair in padding)
        if any(not 0 <= p < w for pair, w in zip(padding, window_shape, strict=True) for p in pair):
            return None
    return Call(inputs, window=tuple(window_shape), strides=tuple(strides or (1,) * rank), padding=padding)


@rules.lower("nnx.avg_pool")
def lower_avg_pool(ctx: Any, x: Any, *, count_include_pad: bool, **window: Any) -> Any:
    """x [B, *space, C] or [*space, C]: the same with *space'."""
    return _pooled(ctx, x, "AveragePool", count_include_pad=int(count_include_pad), **window)


@rules.lower("nnx.max_pool")
def lower_max_pool(ctx: Any, x: Any, **window: Any) -> Any:
    """x [B, *space, C] or [*space, C]: the same with *space'."""
    return _pooled(ctx, x, "MaxPool", **window)


@rules.lower("nnx.min_pool")
def lower_min_pool(ctx: Any, x: Any, **window: Any) -> Any:
    """x [B, *space, C] or [*space, C]: the same with *space'."""
    return ctx.op.Neg(_pooled(ctx, ctx.op.Neg(x), "MaxPool", **window))


def _pooled(
    ctx: Any,
    x: Any,
    op_type: str,
    *,
    window: tuple[int, ...],
    strides: tuple[int, ...],
    padding: Any,
    **attributes: Any,
) -> Any:
    needs(ctx, op_type, x)
    rank = len(window)
    if padding not in ("SAME", "VALID") and isinstance(padding, str):
        ctx.decline(f"padding {padding!r}")
    dims, shape = ctx.dims(x), tuple(ctx.avals_out[0].shape)
    if any(isinstance(d, int) and d == 0 for d in (*dims, *shape)):
        ctx.decline("nothing to pool")
    batched = len(dims) == rank + 2
    images = x if batched else ctx.unsqueeze(x, [0])
    batch, *space, channels = shape if batched else (1, *shape)
    y = ctx.op(
        op_type,
        ctx.transpose(images, to_nchw(rank)),
        kernel_shape=list(window),
        strides=list(strides),
        dims=(batch, channels, *space),
        **attributes,
        **pads(padding, dims[-rank - 1 : -1], window, strides, (1,) * rank),
    )
    y = ctx.transpose(y, to_nhwc(rank))
    return y if batched else ctx.squeeze(y, [0])
