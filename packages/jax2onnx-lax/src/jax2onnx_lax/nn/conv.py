"""The layer operations "nn.conv" and "nn.conv_transpose": Conv and ConvTranspose with the bias inside.

The images of JAX's frameworks have their channels last, those of ONNX second: each layer stands between two transposes,
of which a layout pass leaves those at the boundary of a stack. From the primitives the bias would be an Add of its own.
"""

from __future__ import annotations

import math

import numpy as np
from jax2onnx_core import Context, Rules, Value
from jax2onnx_core.jaxprs import Dims
from jax2onnx_graph.build.final_names import common_name

from jax2onnx_lax.nn.operands import channels_first, channels_last, pad_attributes, static_sizes
from jax2onnx_lax.padding import Padding, dilated_size, surely_fits, transposed_padding

__all__ = ["rules"]

rules = Rules()


@rules.lower("nn.conv")
def conv(
    ctx: Context, x: Value, kernel: Value, bias: Value | None, *, strides: tuple[int, ...], padding: Padding,
    dilations: tuple[int, ...], groups: int,
) -> Value:  # fmt: skip
    """A convolution over the spatial axes of images (in the sense of machine learning: a correlation).

    Args:
      ctx: the export.
      x: [*batch, *space, I], any number of batch axes.
      kernel: [*window, I / groups, O].
      bias: [O], or None.
      strides: one number for each spatial axis.
      padding: "SAME", "VALID", or (low, high) for each spatial axis.
      dilations: the distance of the kernel's elements, for each spatial axis.
      groups: into how many groups the channels are divided.

    Returns:
      [*batch, *space', O], in the element type that all operands have.
    """
    ctx.require("Conv", x)
    rank = len(strides)
    if padding not in ("SAME", "VALID") and (isinstance(padding, str) or min(map(min, padding)) < 0):
        ctx.decline(f"Conv has no padding {padding!r}")
    images = _with_one_batch_axis(ctx, x, rank)
    window = static_sizes(ctx, ctx.known_dims(kernel)[:rank])
    space = ctx.known_dims(images)[1:-1]
    fitted, pads, auto_pad = pad_attributes(ctx, padding, space, window, strides, dilations)
    result = _channels_first_dims(ctx, images)
    y = ctx.op.Conv(
        ctx.transpose(images, channels_first(rank)), ctx.transpose(kernel, (rank + 1, rank, *range(rank))),
        *([] if bias is None else [bias]), kernel_shape=window, strides=strides, dilations=dilations, group=groups,
        pads=pads, auto_pad=auto_pad, dims=fitted.dims(result),
    )  # fmt: skip
    y = ctx.transpose(fitted.cut(ctx, y, result), channels_last(rank))
    return ctx.reshape(y, ctx.avals_out[0].shape)


@rules.lower("nn.conv_transpose")
def conv_transpose(
    ctx: Context, x: Value, kernel: Value, bias: Value | None, *, strides: tuple[int, ...], padding: Padding,
    dilations: tuple[int, ...], transpose_kernel: bool,
) -> Value:  # fmt: skip
    """A transposed convolution, as `jax.lax.conv_transpose` defines it.

    JAX correlates the input, spread by the strides, with the kernel; ONNX adds the kernel at each element of the input.
    One is the other with the window reversed, and its padding counted from the full overlap, `extent - 1`.

    Args:
      ctx: the export.
      x: [*batch, *space, I], any number of batch axes.
      kernel: [*window, I, O], or [*window, O, I] if `transpose_kernel`.
      bias: [O], or None.
      strides: by how much each spatial axis grows.
      padding: "SAME", "VALID", or (low, high) for each axis of the spread input.
      dilations: the distance of the kernel's elements, for each spatial axis.
      transpose_kernel: whether the kernel is that of the convolution whose transpose this is: its window is reversed.

    Returns:
      [*batch, *space', O], in the element type that all operands have.
    """
    ctx.require("ConvTranspose", x)
    rank = len(strides)
    window = static_sizes(ctx, ctx.known_dims(kernel)[:rank])
    images = _with_one_batch_axis(ctx, x, rank)
    spread = dilated_size(ctx.known_dims(images)[1:-1], strides)
    begins, ends = _cuts(ctx, spread, window, strides, padding, dilations)
    y = ctx.op.ConvTranspose(
        ctx.transpose(images, channels_first(rank)), _scattered_kernel(ctx, kernel, rank, transpose_kernel),
        *([] if bias is None else [bias]), kernel_shape=window, strides=strides, dilations=dilations,
        pads=[max(cut, 0) for cut in (*begins, *ends)], output_padding=[max(-cut, 0) for cut in ends],
        dims=_channels_first_dims(ctx, images),
    )  # fmt: skip
    return ctx.reshape(ctx.transpose(y, channels_last(rank)), ctx.avals_out[0].shape)


def _cuts(
    ctx: Context, spread: Dims, window: tuple[int, ...], strides: tuple[int, ...], padding: Padding,
    dilations: tuple[int, ...],
) -> tuple[list[int], list[int]]:  # fmt: skip
    """What is cut off the full overlap at the beginning and at the end of each axis; negative at the end where the
    output goes beyond it. Declines what ONNX's pads and output_padding cannot say.
    """
    if isinstance(padding, str) and padding not in ("SAME", "VALID"):
        ctx.decline(f"ConvTranspose has no padding {padding!r}")
    pairs = transposed_padding(padding, window, strides, dilations)
    full = [(size - 1) * dilation for size, dilation in zip(window, dilations, strict=True)]
    begins = [f - low for f, (low, _) in zip(full, pairs, strict=True)]
    ends = [f - high for f, (_, high) in zip(full, pairs, strict=True)]
    if min(begins) < 0 or any(-end >= max(s, d) for end, s, d in zip(ends, strides, dilations, strict=True)):
        ctx.decline("padding beyond the full overlap")
    if not all(map(surely_fits, spread, pairs, dilated_size(window, dilations))):
        ctx.decline("a window may be larger than its axis")
    return begins, ends


def _scattered_kernel(ctx: Context, kernel: Value, rank: int, transpose_kernel: bool) -> Value:
    """The kernel as ONNX has it: [I, O, *window], the window reversed unless it is already."""
    if transpose_kernel:
        return ctx.transpose(kernel, (rank + 1, rank, *range(rank)))
    known = ctx.known(kernel)
    if known is None:
        ctx.decline("the kernel is not a constant")
    flipped = np.flip(known, tuple(range(rank))).transpose(rank, rank + 1, *range(rank))
    return ctx.constant(flipped, like=kernel, name=common_name([kernel]))


def _with_one_batch_axis(ctx: Context, x: Value, rank: int) -> Value:
    dims = ctx.known_dims(x)
    batch = dims[: -rank - 1]
    return x if len(batch) == 1 else ctx.reshape(x, (math.prod(batch), *dims[-rank - 1 :]))


def _channels_first_dims(ctx: Context, images: Value) -> Dims:
    """The dimensions [B, O, *space'] of the result, `images` having one batch axis."""
    shape, dims = ctx.avals_out[0].shape, ctx.known_dims(images)
    return (dims[0], shape[-1], *shape[1 - len(dims) : -1])
