"""`nnx.Conv` and `nnx.ConvTranspose`: `Conv` and `ConvTranspose` with the bias inside.

Flax's images are NHWC, ONNX's NCHW: each layer stands between two transposes, of which a layout pass
leaves those at the boundary of a stack. From the primitives the bias would be an `Add` of its own.
"""

from __future__ import annotations

__all__ = ["composites", "pads", "rules", "to_nchw", "to_nhwc", "transposed_padding"]

import math
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax2onnx_core import Call, Composites, Rules
from jax2onnx_lax.nn.activations import needs

from jax2onnx_nnx.layer import parameter, promoted

composites = Composites()
rules = Rules()

Padding = str | tuple[tuple[int, int], ...]


@composites.call("flax.nnx:Conv.__call__", name="nnx.conv")
def conv(self: Any, inputs: Any, out_sharding: Any = None) -> Call | None:
    rank = len(self.kernel_size)
    custom = self.conv_general_dilated is not jax.lax.conv_general_dilated or self.preferred_element_type is not None
    if custom or out_sharding is not None or self.mask is not None or set(_per_axis(self.input_dilation, rank)) != {1}:
        return None
    dilations = _per_axis(self.kernel_dilation, rank)
    padding = _padding(self.padding, rank, self.kernel_size, dilations)
    arrays = promoted(self, inputs, parameter(self.kernel), parameter(self.bias))
    if padding is None or arrays is None:
        return None
    return Call(
        *arrays,
        strides=_per_axis(self.strides, rank),
        padding=padding,
        dilations=dilations,
        groups=self.feature_group_count,
    )


@composites.call("flax.nnx:ConvTranspose.__call__", name="nnx.conv_transpose")
def conv_transpose(self: Any, inputs: Any) -> Call | None:
    rank = len(self.kernel_size)
    arrays = promoted(self, inputs, parameter(self.kernel), parameter(self.bias))
    unusual = self.mask is not None or self.preferred_element_type is not None
    if arrays is None or unusual or self.padding in ("CIRCULAR", "REFLECT", "CAUSAL"):
        return None
    strides, dilations = _per_axis(self.strides, rank), _per_axis(self.kernel_dilation, rank)
    padding = self.padding if isinstance(self.padding, str) else _pairs(self.padding, rank)
    return Call(
        *arrays,
        strides=strides,
        dilations=dilations,
        padding=transposed_padding(padding, self.kernel_size, strides, dilations),
        transpose_kernel=self.transpose_kernel,
    )


def _per_axis(value: Any, rank: int) -> tuple[int, ...]:
    if value is None or isinstance(value, int):
        return (value or 1,) * rank
    return tuple(value)


def _pairs(padding: Any, rank: int) -> tuple[tuple[int, int], ...]:
    if isinstance(padding, int):
        return ((padding, padding),) * rank
    return tuple((p, p) if isinstance(p, int) else tuple(p) for p in padding)


def _padding(padding: Any, rank: int, kernel: Sequence[int], dilations: Sequence[int]) -> Padding | None:
    """Explicit pairs, "SAME" or "VALID"; None for a padding that `Conv` does not have."""
    if padding == "CAUSAL" and rank == 1:
        return ((dilations[0] * (kernel[0] - 1), 0),)
    if isinstance(padding, str):
        return padding if padding in ("SAME", "VALID") else None
    pairs = _pairs(padding, rank)
    return pairs if all(p >= 0 for pair in pairs for p in pair) else None


def transposed_padding(
    padding: Any, kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> tuple[tuple[int, int], ...]:
    """The padding of the dilated input that `jax.lax.conv_transpose` stands for, per spatial axis."""
    if not isinstance(padding, str):
        return tuple(padding)
    pairs = []
    for size, stride, dilation in zip(kernel, strides, dilations, strict=True):
        extent = (size - 1) * dilation + 1
        if padding == "SAME":
            total = extent + stride - 2
            before = extent - 1 if stride > extent - 1 else -(-total // 2)
        else:
            total = extent + stride - 2 + max(extent - stride, 0)
            before = extent - 1
        pairs.append((before, total - before))
    return tuple(pairs)


@rules.lower("nnx.conv")
def lower_conv(
    ctx: Any,
    x: Any,
    kernel: Any,
    bias: Any,
    *,
    strides: tuple[int, ...],
    padding: Padding,
    dilations: tuple[int, ...],
    groups: int,
) -> Any:
    """x [*batch, *space, I], kernel [*window, I / groups, O]: [*batch, *space', O]."""
    needs(ctx, "Conv", x)
    rank = len(strides)
    images = _one_batch_axis(ctx, x, rank)
    window = [int(d) for d in ctx.dims(kernel)[:rank]]
    y = ctx.op.Conv(
        ctx.transpose(images, to_nchw(rank)),
        ctx.transpose(kernel, (rank + 1, rank, *range(rank))),
        *([] if bias is None else [bias]),
        kernel_shape=window,
        strides=list(strides),
        dilations=list(dilations),
        group=groups,
        dims=_nchw_dims(ctx, images),
        **pads(padding, ctx.dims(images)[1:-1], window, strides, dilations),
    )
    return ctx.reshape(ctx.transpose(y, to_nhwc(rank)), ctx.avals_out[0].shape)


def pads(
    padding: Padding, space: Sequence[Any], window: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> dict[str, Any]:
    """The attributes of a padding: explicit where it can be known now, else left to the runtime."""
    if padding == "VALID":
        return {}
    if padding == "SAME":
        pairs = [_same(*axis) for axis in zip(space, window, strides, dilations, strict=True)]
        if any(pair is None for pair in pairs):
            return {"auto_pad": "SAME_UPPER"}
        padding = tuple(pair for pair in pairs if pair is not None)
    return {"pads": [p[0] for p in padding] + [p[1] for p in padding]}


def _same(size: Any, window: int, stride: int, dilation: int) -> tuple[int, int] | None:
    extent = (window - 1) * dilation + 1
    if stride == 1:
        total = extent - 1
    elif isinstance(size, int):
        total = max((-(-size // stride) - 1) * stride + extent - size, 0)
    else:
        return None
    return total // 2, total - total // 2


@rules.lower("nnx.conv_transpose")
def lower_conv_transpose(
    ctx: Any,
    x: Any,
    kernel: Any,
    bias: Any,
    *,
    strides: tuple[int, ...],
    padding: tuple[tuple[int, int], ...],
    dilations: tuple[int, ...],
    transpose_kernel: bool,
) -> Any:
    """x [*batch, *space, I], kernel [*window, I, O] or, transposed, [*window, O, I]: [*batch, *space', O].

    JAX correlates the dilated input with the kernel, ONNX scatters the kernel: one is the other with
    the window reversed, and its padding counted from the full overlap, `extent - 1`.
    """
    needs(ctx, "ConvTranspose", x)
    rank = len(strides)
    window = [int(d) for d in ctx.dims(kernel)[:rank]]
    full = [(size - 1) * dilation for size, dilation in zip(window, dilations, strict=True)]
    begins = [f - p[0] for f, p in zip(full, padding, strict=True)]
    ends = [f - p[1] for f, p in zip(full, padding, strict=True)]
    if min(begins) < 0 or any(-e >= max(s, d) for e, s, d in zip(ends, strides, dilations, strict=True)):
        ctx.decline("padding beyond the full overlap")
    images = _one_batch_axis(ctx, x, rank)
    y = ctx.op.ConvTranspose(
        ctx.transpose(images, to_nchw(rank)),
        _scattered_kernel(ctx, kernel, rank, transpose_kernel),
        *([] if bias is None else [bias]),
        kernel_shape=window,
        strides=list(strides),
        dilations=list(dilations),
        pads=[max(b, 0) for b in begins] + [max(e, 0) for e in ends],
        output_padding=[max(-e, 0) for e in ends],
        dims=_nchw_dims(ctx, images),
    )
    return ctx.reshape(ctx.transpose(y, to_nhwc(rank)), ctx.avals_out[0].shape)


def _scattered_kernel(ctx: Any, kernel: Any, rank: int, transpose_kernel: bool) -> Any:
    """The kernel as ONNX has it: [I, O, *window]."""
    if transpose_kernel:
        return ctx.transpose(kernel, (rank + 1, rank, *range(rank)))
    known = ctx.known(kernel)
    if known is None:
        ctx.decline("the kernel is not a constant")
    return ctx.constant(np.flip(known, tuple(range(rank))).transpose(rank, rank + 1, *range(rank)), like=kernel)


def _one_batch_axis(ctx: Any, x: Any, rank: int) -> Any:
    dims = ctx.dims(x)
    batch = dims[: -rank - 1]
    return x if len(batch) == 1 else ctx.reshape(x, (math.prod(batch), *dims[-rank - 1 :]))


def _nchw_dims(ctx: Any, images: Any) -> tuple[Any, ...]:
    """The dimensions of the result before it is transposed back, images having one batch axis."""
    shape = ctx.avals_out[0].shape
    space = shape[-len(ctx.dims(images)) + 1 : -1]
    return (ctx.dims(images)[0], shape[-1], *space)


def to_nchw(rank: int) -> tuple[int, ...]:
    return (0, rank + 1, *range(1, rank + 1))


def to_nhwc(rank: int) -> tuple[int, ...]:
    return (0, *range(2, rank + 2), 1)
