"""`nnx.avg_pool` as `AveragePool`. (`max_pool` and `min_pool` already are one primitive each.)"""

from __future__ import annotations

__all__ = ["composites", "rules"]

from typing import Any

from jax2onnx_core import Call, Composites, Rules
from jax2onnx_lax.nn import is_float, needs
from jax2onnx_nnx.conv import pads, to_nchw, to_nhwc

composites = Composites()
rules = Rules()


@composites.call("flax.nnx:avg_pool", name="nnx.avg_pool")
def avg_pool(
    inputs: Any, window_shape: Any, strides: Any = None, padding: Any = "VALID", count_include_pad: bool = True
) -> Call | None:
    rank = len(window_shape)
    if not is_float(inputs) or inputs.ndim != rank + 2:
        return None
    if not isinstance(padding, str):
        padding = tuple(tuple(pair) for pair in padding)
        if any(p >= w for pair, w in zip(padding, window_shape, strict=True) for p in pair):
            return None
    return Call(
        inputs,
        window=tuple(window_shape),
        strides=tuple(strides or (1,) * rank),
        padding=padding,
        count_include_pad=bool(count_include_pad),
    )


@rules.lower("nnx.avg_pool")
def lower_avg_pool(
    ctx: Any, x: Any, *, window: tuple[int, ...], strides: tuple[int, ...], padding: Any, count_include_pad: bool
) -> Any:
    """x [B, *space, C]: [B, *space', C]."""
    needs(ctx, "AveragePool", x)
    rank = len(window)
    if padding not in ("SAME", "VALID") and isinstance(padding, str):
        ctx.decline(f"padding {padding!r}")
    shape = ctx.avals_out[0].shape
    y = ctx.op.AveragePool(
        ctx.transpose(x, to_nchw(rank)),
        kernel_shape=list(window),
        strides=list(strides),
        count_include_pad=int(count_include_pad),
        dims=(shape[0], shape[-1], *shape[1:-1]),
        **pads(padding, ctx.dims(x)[1:-1], window, strides, (1,) * rank),
    )
    return ctx.transpose(y, to_nhwc(rank))
