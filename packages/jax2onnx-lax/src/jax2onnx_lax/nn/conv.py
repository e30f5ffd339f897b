"""The layer operations "nn.conv" and "nn.conv_transpose" as Conv and ConvTranspose, which add the bias themselves.

The images of most of JAX's frameworks have their channels last, those of ONNX second: each layer stands between two
transposes, of which a layout pass leaves those at the boundary of a stack. From the primitives the bias would be an Add of its own.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from jax2onnx_core import Context, Rules, Value
from jax2onnx_core.jaxprs import Dim

from jax2onnx_lax.contract.conv import Kernel, Window, emit_conv
from jax2onnx_lax.nn import _operands as operands
from jax2onnx_lax.nn._operands import channels_last, static_sizes
from jax2onnx_lax.padding import Padding, same_padding, transposed_padding

__all__ = ["rules"]

rules = Rules()


@rules.lower("nn.conv")
def conv(
    ctx: Context, x: Value, kernel: Value, bias: Value | None, *, strides: tuple[int, ...], padding: Padding,
    dilations: tuple[int, ...], groups: int, channels_first: bool = False,
) -> Value:  # fmt: skip
    """A convolution over the spatial axes of images (in the sense of machine learning: a correlation).

    Declined: padding of another name.

    Under vmap: `keep_under_vmap=(0,)`.

    Args:
      ctx: the context of the rule.
      x: the images, [*batch, *space, I], with any number of batch axes (none too).
      kernel: the weights, [*window, I / groups, O].
      bias: [O], or None.
      strides: the distance of two windows along each spatial axis; its length is the number of spatial axes.
      padding: "SAME", "VALID", or (low, high) for each spatial axis; negative padding cuts off.
      dilations: the distance of two elements of the kernel along each spatial axis.
      groups: the number of groups that the channels are divided into.
      channels_first: whether `x` is [*batch, I, *space] and the kernel [O, I / groups, *window].

    Returns:
      [*batch, *space', O], or [*batch, O, *space'] if `channels_first`.
    """
    images = _images(ctx, x, len(strides), channels_first)
    kernel = kernel if channels_first else ctx.transpose(kernel, _kernel_first(len(strides)))
    space, sizes = ctx.known_dims(images)[2:], ctx.known_dims(kernel)[2:]
    same = functools.partial(same_padding, space, sizes, strides, dilations)
    pairs = _pairs(ctx, padding, same if padding == "SAME" else lambda: ((0, 0),) * len(strides))
    window = Window(sizes, strides, pairs, (1,) * len(strides), dilations)
    return _convolved(ctx, images, Kernel(kernel), bias, window, groups, channels_first)


@rules.lower("nn.conv_transpose")
def conv_transpose(
    ctx: Context, x: Value, kernel: Value, bias: Value | None, *, strides: tuple[int, ...], padding: Padding,
    dilations: tuple[int, ...], transpose_kernel: bool, groups: int = 1, channels_first: bool = False,
) -> Value:  # fmt: skip
    """A transposed convolution, as `jax.lax.conv_transpose` defines it.

    JAX correlates the input, dilated by the strides, with the kernel; ONNX adds the kernel at each element of the input.
    One is the other with the window reversed, and with the padding counted from the full overlap, which is
    `(size - 1) * dilation` for a window of `size` elements.

    Declined: padding of another name; a transposed kernel in several groups, or with the channels first.

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
    if transpose_kernel and (groups > 1 or channels_first):
        ctx.decline("a transposed kernel in several groups, or with the channels first")
    rank = len(strides)
    images = _images(ctx, x, rank, channels_first)
    kernel = kernel if channels_first else ctx.transpose(kernel, _kernel_first(rank, transpose_kernel))
    sizes = static_sizes(ctx, ctx.known_dims(kernel)[2:])
    pairs = _pairs(ctx, padding, functools.partial(transposed_padding, padding, sizes, strides, dilations))
    window = Window(sizes, (1,) * rank, pairs, strides, dilations)
    return _convolved(ctx, images, Kernel(kernel, is_reverse=transpose_kernel), bias, window, groups, channels_first)


def _kernel_first(rank: int, transpose_kernel: bool = False) -> tuple[int, ...]:
    """The permutation of a kernel [*window, I / groups, O], or [*window, O, I] if `transpose_kernel`, to that of ONNX."""
    channels = (rank, rank + 1) if transpose_kernel else (rank + 1, rank)
    return (*channels, *range(rank))


def _pairs(
    ctx: Context, padding: Padding, named: Callable[[], tuple[tuple[Dim, Dim], ...]]
) -> tuple[tuple[Dim, Dim], ...]:
    """The padding as (low, high) for each spatial axis; declines names that JAX does not have."""
    if not isinstance(padding, str):
        return padding
    if padding not in ("SAME", "VALID"):
        ctx.decline(f"Conv has no padding {padding!r}")
    return named()


def _convolved(
    ctx: Context, images: Value, kernel: Kernel, bias: Value | None, window: Window, groups: int, channels_first: bool
) -> Value:
    """The convolution of images [B, I, *space], with as many batch axes as JAX's result has, and its channels where that has them."""
    ctx.require("Conv", images)
    rank, (batch, _, *space), shape = len(window.strides), ctx.known_dims(images), ctx.avals_out[0].shape
    image = shape[len(shape) - len(space) - 1 :]
    dims = (batch, *image) if channels_first else (batch, image[-1], *image[:-1])
    y = emit_conv(ctx, images, kernel, bias, window, groups, dims)
    y = y if channels_first else ctx.transpose(y, channels_last(rank))
    return ctx.squeeze(y, [0]) if len(shape) == rank + 1 else ctx.reshape(y, shape)


def _images(ctx: Context, x: Value, rank: int, channels_first: bool) -> Value:
    """`x` as [B, C, *space]."""
    images = operands.with_one_batch_axis(ctx, x, rank)
    return images if channels_first else ctx.transpose(images, operands.channels_first(rank))
