"""`Conv1D` and convolutions by channel as "nn.conv", transposed ones as "nn.conv_transpose"; a separable one is two.

Other convolutions need no composite.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax
from jax import lax
from jax2onnx_core import Call, Composites, Replacement
from jax2onnx_lax.padding import Padding

from jax2onnx_keras import _compat
from jax2onnx_keras._layer import (
    activated,
    array,
    as_channels_last,
    from_channels_last,
    layer_operation,
    of_one_type,
    with_bias,
)

if TYPE_CHECKING:
    import keras

__all__ = ["composites"]

composites = Composites()

_BASES = "keras.src.layers.convolutional"


@composites.call("keras.layers:Conv1D.call", name="nn.conv")
def conv(self: keras.layers.Conv1D, inputs: jax.Array) -> Replacement | None:
    """Kept because the padding of a causal convolution would be a Pad of its own."""
    kernel, bias = array(self.kernel), _bias(self)
    if kernel is None or self.rank != inputs.ndim - 2 or not of_one_type(inputs, kernel, bias):
        return None
    x = as_channels_last(inputs, self.data_format)
    return _finished(self, _convolution(self, x, kernel, bias, groups=x.shape[-1] // kernel.shape[-2]))


@composites.call(f"{_BASES}.base_depthwise_conv:BaseDepthwiseConv.call", name="nn.conv")
def depthwise_conv(self: keras.layers.DepthwiseConv2D, inputs: jax.Array) -> Replacement | None:
    """Kept because signals would be images of one row, and their bias an Add of its own."""
    kernel, bias = array(self.kernel), _bias(self)
    if kernel is None or self.rank != inputs.ndim - 2 or not of_one_type(inputs, kernel, bias):
        return None
    return _finished(self, _by_channel(self, as_channels_last(inputs, self.data_format), kernel, bias))


@composites.call(f"{_BASES}.base_separable_conv:BaseSeparableConv.call", name="nn.conv")
def separable_conv(self: keras.layers.SeparableConv2D, inputs: jax.Array) -> Replacement | None:
    """Kept because signals would be images of one row."""
    depthwise, pointwise, bias = array(self.depthwise_kernel), array(self.pointwise_kernel), _bias(self)
    if depthwise is None or pointwise is None or not of_one_type(inputs, depthwise, pointwise, bias):
        return None
    if self.rank != inputs.ndim - 2:
        return None
    y = _by_channel(self, as_channels_last(inputs, self.data_format), depthwise, None)
    ones = (1,) * self.rank
    return _finished(self, _bound(y, pointwise, bias, strides=ones, padding="VALID", dilations=ones, groups=1))


@composites.call(f"{_BASES}.base_conv_transpose:BaseConvTranspose.call", name="nn.conv_transpose")
def conv_transpose(self: keras.layers.Conv2DTranspose, inputs: jax.Array) -> Replacement | None:
    """Kept because a signal with the channels first would be a Conv of the input with zeros between its elements."""
    kernel, bias = array(self.kernel), _bias(self)
    if kernel is None or self.rank != inputs.ndim - 2 or not of_one_type(inputs, kernel, bias):
        return None
    x = as_channels_last(inputs, self.data_format)
    strides, padding, dilations = self.strides, _compat.transposed_padding(self), self.dilation_rate

    def original() -> jax.Array:
        y = lax.conv_transpose(x, kernel, strides, padding, rhs_dilation=dilations, transpose_kernel=True)
        return with_bias(y, bias)

    call = Call(x, kernel, bias, strides=strides, padding=padding, dilations=dilations, transpose_kernel=True)
    return _finished(self, layer_operation("nn.conv_transpose", call, original))


def _bias(layer: keras.Layer) -> jax.Array | None:
    """The bias that the layer adds: one that it holds and does not use does not count."""
    return array(layer.bias) if layer.use_bias else None


def _by_channel(layer: keras.Layer, x: jax.Array, kernel: jax.Array, bias: jax.Array | None) -> jax.Array:
    """The convolution of each of the I channels with M kernels of its own, `kernel` being [*window, I, M]."""
    *window, channels, multiplier = kernel.shape
    return _convolution(layer, x, kernel.reshape(*window, 1, channels * multiplier), bias, groups=channels)


def _convolution(
    layer: keras.Layer, x: jax.Array, kernel: jax.Array, bias: jax.Array | None, *, groups: int
) -> jax.Array:
    """The convolution of `x` [B, *space, I] with the options of the layer."""
    padding: Padding = layer.padding.upper()
    if padding == "CAUSAL":
        padding = ((layer.dilation_rate[0] * (layer.kernel_size[0] - 1), 0),)
    strides, dilations = layer.strides, layer.dilation_rate
    return _bound(x, kernel, bias, strides=strides, padding=padding, dilations=dilations, groups=groups)


def _bound(
    x: jax.Array,
    kernel: jax.Array,
    bias: jax.Array | None,
    *,
    strides: tuple[int, ...],
    padding: Padding,
    dilations: tuple[int, ...],
    groups: int,
) -> jax.Array:
    space = "DHW"[-len(strides) :]
    layout = (f"N{space}C", f"{space}IO", f"N{space}C")

    def original() -> jax.Array:
        y = lax.conv_general_dilated(
            x, kernel, strides, padding, rhs_dilation=dilations, dimension_numbers=layout, feature_group_count=groups
        )
        return with_bias(y, bias)

    call = Call(x, kernel, bias, strides=strides, padding=padding, dilations=dilations, groups=groups)
    return layer_operation("nn.conv", call, original)


def _finished(layer: keras.Layer, y: jax.Array) -> Replacement | None:
    """The result of the layer; None for one without elements, which Keras refuses."""
    if 0 in y.shape:
        return None
    return Replacement(activated(layer, from_channels_last(y, layer.data_format)))
