"""`hk.ConvND` and the depthwise convolutions as "nn.conv", `hk.ConvNDTranspose` as "nn.conv_transpose".

Where the channels lie first, the primitives already are one Conv.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
from jax2onnx_core import Call, Composites
from jax2onnx_lax.padding import canonical_padding

from jax2onnx_haiku._compat import DEPTHWISE_CONV
from jax2onnx_haiku._layer import parameters

if TYPE_CHECKING:
    import haiku as hk

__all__ = ["composites"]

composites = Composites()


@composites.call("haiku:ConvND.__call__.__wrapped__", name="nn.conv", keep_under_vmap=(0,))
def conv(self: hk.ConvND, inputs: jax.Array, *, precision: jax.lax.PrecisionLike = None) -> Call | None:
    """Kept because the bias, which the layer broadcasts to the images, would be an Add of its own where sizes are
    known.
    """
    rank, groups = self.num_spatial_dims, self.feature_group_count
    if self.channel_index != -1 or self.mask is not None or not _are_images(inputs, rank):
        return None
    shape = (*self.kernel_shape, inputs.shape[-1] // groups, self.output_channels)
    weights = parameters(inputs, w=(shape, self.w_init), b=(shape[-1:], self.b_init) if self.with_bias else None)
    if weights is None:
        return None
    padding = canonical_padding(self.padding, rank)
    return Call(inputs, *weights, strides=self.stride, padding=padding, dilations=self.kernel_dilation, groups=groups)


@composites.call(f"{DEPTHWISE_CONV}.__call__.__wrapped__", name="nn.conv", keep_under_vmap=(0,))
def depthwise_conv(self: hk.DepthwiseConv2D, inputs: jax.Array) -> Call | None:
    """Kept because the bias, which the layer broadcasts to the images, would be an Add of its own where sizes are
    known.
    """
    rank = self.num_spatial_dims
    if self.channel_index != -1 or inputs.ndim != rank + 2:
        return None
    groups = inputs.shape[-1]
    shape = (*self.kernel_shape, 1, self.channel_multiplier * groups)
    weights = parameters(inputs, w=(shape, self.w_init), b=(shape[-1:], self.b_init) if self.with_bias else None)
    if weights is None:
        return None
    padding = canonical_padding(self.padding, rank)
    return Call(inputs, *weights, strides=self.stride, padding=padding, dilations=self.rhs_dilation, groups=groups)


@composites.call("haiku:ConvNDTranspose.__call__.__wrapped__", name="nn.conv_transpose", keep_under_vmap=(0,))
def conv_transpose(
    self: hk.ConvNDTranspose, inputs: jax.Array, *, precision: jax.lax.PrecisionLike = None
) -> Call | None:
    """Kept because the bias, which the layer broadcasts to the images, would be an Add of its own where sizes are
    known.
    """
    rank = self.num_spatial_dims
    unusual = self.mask is not None or self.output_shape is not None
    if self.channel_index != -1 or unusual or not _are_images(inputs, rank):
        return None
    shape = (*self.kernel_shape, self.output_channels, inputs.shape[-1])
    bias = ((self.output_channels,), self.b_init) if self.with_bias else None
    weights = parameters(inputs, w=(shape, self.w_init), b=bias)
    if weights is None:
        return None
    w, b = weights
    assert w is not None
    # The order of the channels is that of a transposed kernel, but the window is not reversed.
    kernel = jnp.swapaxes(w, -1, -2)
    return Call(
        inputs, kernel, b,
        strides=self.stride, padding=canonical_padding(self.padding, rank), dilations=(1,) * rank, transpose_kernel=False,
    )  # fmt: skip


def _are_images(inputs: jax.Array, rank: int) -> bool:
    """Whether `inputs` is one image or a batch of them."""
    return inputs.ndim in (rank + 1, rank + 2)
