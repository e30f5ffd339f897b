"""The layer operations "nn.conv" and "nn.conv_transpose" as Conv and ConvTranspose, which add the bias themselves.

The images of most of JAX's frameworks have their channels last, those of ONNX second: each layer stands between two
transposes, of which a layout pass leaves those at the boundary of a stack. From the primitives the bias would be an Add of its own.
"""

from __future__ import annotations

import numpy as np
from jax2onnx_core import Context, Rules, Value
from jax2onnx_core.jaxprs import Dims
from jax2onnx_graph.build.builder import Array
from jax2onnx_graph.build.final_names import common_name

from jax2onnx_lax.nn import _operands as operands
from jax2onnx_lax.nn._operands import channels_last, pad_attributes, static_sizes
from jax2onnx_lax.padding import Padding, dilated_size, surely_fits, transposed_padding

__all__ = ["rules"]

rules = Rules()


@rules.lower("nn.conv")
def conv(
    ctx: Context, x: Value, kernel: Value, bias: Value | None, *, strides: tuple[int, ...], padding: Padding,
    dilations: tuple[int, ...], groups: int, channels_first: bool = False,
) -> Value:  # fmt: skip
    """A convolution over the spatial axes of images (in the sense of machine learning: a correlation).

    Declined: a kernel with symbolic sizes, negative padding.

    Under vmap: `keep_under_vmap=(0,)`.

    Args:
      ctx: the context of the rule.
      x: the images, [*batch, *space, I], with any number of batch axes (none too).
      kernel: the weights, [*window, I / groups, O].
      bias: [O], or None.
      strides: the distance of two windows along each spatial axis; its length is the number of spatial axes.
      padding: "SAME", "VALID", or (low, high) for each spatial axis, not negative.
      dilations: the distance of two elements of the kernel along each spatial axis.
      groups: the number of groups that the channels are divided into.
      channels_first: whether `x` is [*batch, I, *space] and the kernel [O, I / groups, *window].

    Returns:
      [*batch, *space', O], or [*batch, O, *space'] if `channels_first`.
    """
    ctx.require("Conv", x)
    rank = len(strides)
    if padding not in ("SAME", "VALID") and (isinstance(padding, str) or min(map(min, padding)) < 0):
        ctx.decline(f"Conv has no padding {padding!r}")
    if not channels_first:
        kernel = ctx.transpose(kernel, (rank + 1, rank, *range(rank)))
    window = static_sizes(ctx, ctx.known_dims(kernel)[2:])
    images = _images(ctx, x, rank, channels_first)
    fitted, pads, auto_pad = pad_attributes(ctx, padding, ctx.known_dims(images)[2:], window, strides, dilations)
    result = _result_dims(ctx, images, channels_first)
    y = ctx.op.Conv(
        images, kernel, *([] if bias is None else [bias]), kernel_shape=window, strides=strides, dilations=dilations,
        group=groups, pads=pads, auto_pad=auto_pad, dims=fitted.dims(result),
    )  # fmt: skip
    y = fitted.cut(ctx, y, result)
    return _batches(ctx, y if channels_first else ctx.transpose(y, channels_last(rank)), rank)


@rules.lower("nn.conv_transpose")
def conv_transpose(
    ctx: Context, x: Value, kernel: Value, bias: Value | None, *, strides: tuple[int, ...], padding: Padding,
    dilations: tuple[int, ...], transpose_kernel: bool, groups: int = 1, channels_first: bool = False,
) -> Value:  # fmt: skip
    """A transposed convolution, as `jax.lax.conv_transpose` defines it.

    JAX correlates the input, dilated by the strides, with the kernel; ONNX adds the kernel at each element of the input.
    One is the other with the window reversed, and with the padding counted from the full overlap, which is
    `(size - 1) * dilation` for a window of `size` elements.

    Declined: a kernel that is no constant, unless `transpose_kernel`; padding beyond the full overlap; a window that
    may be larger than its padded axis.

    Under vmap: `keep_under_vmap=(0,)`.

    Args:
      ctx: the context of the rule.
      x: the images, [*batch, *space, I], with any number of batch axes (none too).
      kernel: the weights, [*window, I / groups, O], or [*window, O, I] if `transpose_kernel`.
      bias: [O], or None.
      strides: the factor by which each spatial axis grows; its length is the number of spatial axes.
      padding: "SAME", "VALID", or (low, high) for each axis of the dilated input, as `jax.lax.conv_transpose` takes it.
      dilations: the distance of two elements of the kernel along each spatial axis.
      transpose_kernel: whether the kernel is that of the convolution whose transpose this is: its window is reversed
        and its last two axes are swapped. Only with one group and the channels last.
      groups: the number of groups that the channels are divided into.
      channels_first: whether `x` is [*batch, I, *space] and the kernel [O, I / groups, *window].

    Returns:
      [*batch, *space', O], or [*batch, O, *space'] if `channels_first`.
    """
    ctx.require("ConvTranspose", x)
    if transpose_kernel and (groups > 1 or channels_first):
        ctx.decline("a transposed kernel in several groups, or with the channels first")
    rank = len(strides)
    sizes = ctx.known_dims(kernel)
    window = static_sizes(ctx, sizes[2:] if channels_first else sizes[:rank])
    images = _images(ctx, x, rank, channels_first)
    spread = dilated_size(ctx.known_dims(images)[2:], strides)
    begins, ends = _cuts(ctx, spread, window, strides, padding, dilations)
    y = ctx.op.ConvTranspose(
        images, _scattered_kernel(ctx, kernel, rank, groups, transpose_kernel, channels_first),
        *([] if bias is None else [bias]), kernel_shape=window, strides=strides, dilations=dilations,
        group=groups if groups > 1 else None,
        pads=[max(cut, 0) for cut in (*begins, *ends)], output_padding=[max(-cut, 0) for cut in ends],
        dims=_result_dims(ctx, images, channels_first),
    )  # fmt: skip
    return _batches(ctx, y if channels_first else ctx.transpose(y, channels_last(rank)), rank)


def _cuts(
    ctx: Context, spread: Dims, window: tuple[int, ...], strides: tuple[int, ...], padding: Padding,
    dilations: tuple[int, ...],
) -> tuple[list[int], list[int]]:  # fmt: skip
    """The numbers of elements by which the result is shorter than the full overlap, at the beginning and at the end of
    each axis; negative at the end where the result is longer. Declines what ONNX's pads and output_padding cannot say.
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


def _scattered_kernel(
    ctx: Context, kernel: Value, rank: int, groups: int, transpose_kernel: bool, channels_first: bool
) -> Value:
    """The kernel as ConvTranspose takes it: [I, O / groups, *window], the window reversed unless it is already."""
    if transpose_kernel:
        return ctx.transpose(kernel, (rank + 1, rank, *range(rank)))
    layout = tuple(range(rank + 2)) if channels_first else (rank + 1, rank, *range(rank))
    sizes = static_sizes(ctx, ctx.known_dims(kernel))
    out, per_group, *window = (sizes[axis] for axis in layout)
    dims = (groups * per_group, out // groups, *window)

    def scattered(kernel: Array) -> Array:
        grouped = kernel.transpose(layout).reshape(groups, out // groups, per_group, *window).swapaxes(1, 2)
        return np.flip(grouped.reshape(dims), tuple(range(2, 2 + rank)))

    folded = ctx.fold(scattered, kernel, dims=dims, name=common_name([kernel]))
    return ctx.decline("the kernel is not a constant") if folded is None else folded


def _images(ctx: Context, x: Value, rank: int, channels_first: bool) -> Value:
    """`x` as [B, C, *space]."""
    images = operands.with_one_batch_axis(ctx, x, rank)
    return images if channels_first else ctx.transpose(images, operands.channels_first(rank))


def _result_dims(ctx: Context, images: Value, channels_first: bool) -> Dims:
    """The dimensions [B, O, *space'] of the result, `images` having one batch axis."""
    (batch, _, *space), shape = ctx.known_dims(images), ctx.avals_out[0].shape
    image = shape[len(shape) - len(space) - 1 :]
    return (batch, *image) if channels_first else (batch, image[-1], *image[:-1])


def _batches(ctx: Context, y: Value, rank: int) -> Value:
    """The result `y`, which has one batch axis, with as many batch axes as JAX's."""
    shape = ctx.avals_out[0].shape
    return ctx.squeeze(y, [0]) if len(shape) == rank + 1 else ctx.reshape(y, shape)
