"""Convolution as matrix products, for element types that have no Conv: float64, integers, no spatial axes; and for few large windows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax2onnx_core.jaxprs import Dim, is_static
from jax2onnx_graph.build.builder import DtypeLike

from jax2onnx_lax._compat import max_dim
from jax2onnx_lax.padding import at_least_one

__all__ = ["batch_groups_as_channels", "conv_by_patches", "conv_by_windows", "windows"]


def conv_by_patches(
    lhs: Array, rhs: Array, *, window_strides: Sequence[int], padding: Sequence[tuple[Dim, Dim]],
    lhs_dilation: Sequence[int], rhs_dilation: Sequence[int], dimension_numbers: lax.ConvDimensionNumbers,
    feature_group_count: Dim, batch_group_count: Dim, preferred_element_type: DtypeLike | None = None, **_: object,
) -> Array:  # fmt: skip
    """A convolution as a matrix product: the patches under the kernel, taken by one gather per spatial axis, times the kernel.

    Operands, parameters and result are those of the primitive `conv_general_dilated`. The size of the graph does not depend on
    the sizes of the operands.
    """
    lhs_spec, rhs_spec, out_spec = dimension_numbers
    x, kernel = lax.transpose(lhs, lhs_spec), lax.transpose(rhs, rhs_spec)
    if not is_static(batch_group_count) or batch_group_count > 1:
        x = batch_groups_as_channels(x, groups=batch_group_count)
    space = [(low, high, d - 1) for (low, high), d in zip(padding, lhs_dilation, strict=True)]
    x = lax.pad(x, np.zeros((), x.dtype), [(0, 0, 0), (0, 0, 0), *space])
    for axis in reversed(range(len(space))):
        x = windows(x, axis + 2, kernel.shape[axis + 2], window_strides[axis], rhs_dilation[axis])
    out = _multiply(x, kernel, feature_group_count * batch_group_count, preferred_element_type or lhs.dtype)
    return lax.transpose(out, tuple(int(i) for i in np.argsort(out_spec)))


def conv_by_windows(
    lhs: Array, rhs: Array, *, window_strides: Sequence[int], padding: Sequence[tuple[Dim, Dim]], rhs_dilation: Sequence[int],
    dimension_numbers: lax.ConvDimensionNumbers, outputs: Sequence[int], **_: object,
) -> Array:  # fmt: skip
    """A convolution without groups as a product of the kernel and the window of each output, in the layout of the operands.

    Args:
      lhs: the operand.
      rhs: the kernel.
      window_strides: as of `conv_general_dilated`, and so are the others.
      padding: negative padding cuts off.
      rhs_dilation: the distances of the elements of a window.
      dimension_numbers: which axis is which.
      outputs: the sizes of the result along its spatial axes.
    """
    lhs_spec, rhs_spec, out_spec = dimension_numbers
    space = lhs_spec[2:]
    config: list[tuple[Dim, Dim, int]] = [(0, 0, 0)] * lhs.ndim
    for axis, (low, high) in zip(space, padding, strict=True):
        config[axis] = (low, high, 0)
    x = (
        lax.pad(lhs, np.zeros((), lhs.dtype), cast("list[tuple[int, int, int]]", config))
        if any(map(any, padding))
        else lhs
    )
    contracted = (tuple(rhs_spec[1:]), tuple(lhs_spec[1:]))
    products = []
    for place in np.ndindex(*outputs):
        window = x
        for axis, at, stride, size, step in zip(
            space, place, window_strides, [rhs.shape[i] for i in rhs_spec[2:]], rhs_dilation, strict=True
        ):
            window = lax.slice_in_dim(window, at * stride, at * stride + (size - 1) * step + 1, step, axis)
        products.append(lax.dot_general(rhs, window, (contracted, ((), ()))))
    made = lax.reshape(jnp.stack(products), (*outputs, *products[0].shape))  # [outputs…, features, batch]
    rank = len(outputs)
    return lax.transpose(made, [(rank + 1, rank, *range(rank))[out_spec.index(i)] for i in range(rank + 2)])


def batch_groups_as_channels(x: Array, *, groups: Dim) -> Array:
    """[groups·n, channels, …] → [n, groups·channels, …]: each group of the batch meets its own kernels."""
    batch, channels, *space = x.shape
    x = lax.reshape(x, (groups, batch // groups, channels, *space))
    return lax.reshape(jnp.moveaxis(x, 0, 1), (batch // groups, groups * channels, *space))


def windows(x: Array, axis: int, size: Dim, stride: int, dilation: int) -> Array:
    """`x` with `axis` replaced by two: the windows over it, and the elements of each.

    Args:
      x: the array.
      axis: the axis over which windows move.
      size: the number of elements of a window.
      stride: the distance of two windows.
      dilation: the distance of two elements of a window.
    """
    extent = (size - 1) * dilation + 1
    count = max_dim((x.shape[axis] - extent) // stride + 1, 0)
    if is_static(count) and is_static(size):
        if size == 1 and stride == 1:
            return lax.expand_dims(x, [axis + 1])
        place = np.arange(count)[:, None] * stride + np.arange(size)[None] * dilation
        return jnp.take(x, place.astype(np.int32), axis=axis, mode="clip")
    x = at_least_one(x, axis)
    starts = lax.broadcasted_iota(np.int32, (count, size), 0) * stride
    return jnp.take(x, starts + lax.broadcasted_iota(np.int32, (count, size), 1) * dilation, axis=axis, mode="clip")


def _multiply(patches: Array, kernel: Array, groups: Dim, dtype: DtypeLike) -> Array:
    """[batch, channels, (out, kernel)…] · [features, inputs, kernel…] → [batch, features, out…]."""
    batch, channels, *space = patches.shape
    features, inputs, *sizes = kernel.shape
    outs, rank = space[::2], len(sizes)
    patches = lax.reshape(patches, (batch, groups, channels // groups, *space))
    kernel = lax.reshape(kernel, (groups, features // groups, inputs, *sizes))
    contracted = ((2, *range(4, 4 + 2 * rank, 2)), (2, *range(3, 3 + rank)))
    product = lax.dot_general(patches, kernel, (contracted, ((1,), (0,))), preferred_element_type=dtype)
    # [groups, batch, out…, features of a group]
    product = lax.transpose(product, (1, 0, rank + 2, *range(2, rank + 2)))
    return lax.reshape(product, (batch, features, *outs))
