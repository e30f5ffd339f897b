"""Cases of convolutions."""

from __future__ import annotations

from jax2onnx_core import Case
from keras import layers

from jax2onnx_keras._built import built

__all__ = ["cases"]

_CONV = "Transpose -> Conv -> Transpose"
_SEPARABLE = "Transpose -> Conv -> Conv -> Transpose"
_TRANSPOSED = "Transpose -> ConvTranspose -> Transpose"
_SHAPE = (None, 9, 7, 4)
_IMAGES = [("B", 9, 7, 4)]
_ANY_SIZE = [("B", "H", "W", 4)]
_FIRST = {"data_format": "channels_first"}

cases = [
    Case("conv2d", built(layers.Conv2D, _SHAPE, 6, 3, padding="same"), _IMAGES, expect=_CONV),
    Case("conv2d_strided", built(layers.Conv2D, _SHAPE, 6, (3, 4), strides=(2, 3)), _IMAGES, expect=_CONV),
    Case("conv2d_any_size", built(layers.Conv2D, _SHAPE, 6, 3, strides=2, padding="same"), _ANY_SIZE, expect=_CONV),
    Case(
        "conv2d_dilated_in_groups",
        built(layers.Conv2D, _SHAPE, 6, 3, dilation_rate=2, groups=2, use_bias=False),
        _IMAGES,
        expect=_CONV,
    ),
    Case(
        "conv2d_with_activation",
        built(layers.Conv2D, _SHAPE, 6, 3, activation="relu"),
        _IMAGES,
        expect="Transpose -> Conv -> Transpose -> Relu",
    ),
    Case(
        "conv2d_channels_first", built(layers.Conv2D, (None, 4, 9, 7), 6, 3, **_FIRST), [("B", 4, 9, 7)], expect="Conv"
    ),
    Case(
        "conv1d_causal",
        built(layers.Conv1D, (None, None, 4), 6, 3, padding="causal", dilation_rate=2),
        [("B", "T", 4)],
        expect=_CONV,
    ),
    Case("conv3d", built(layers.Conv3D, (None, 5, 6, 4, 2), 3, (3, 3, 2)), [("B", 5, 6, 4, 2)], expect=_CONV),
    Case(
        "depthwise_conv2d",
        built(layers.DepthwiseConv2D, _SHAPE, 3, padding="same", depth_multiplier=2),
        _IMAGES,
        expect=_CONV,
    ),
    Case(
        "depthwise_conv1d_channels_first",
        built(layers.DepthwiseConv1D, (None, 4, 9), 3, **_FIRST),
        [("B", 4, 9)],
        expect="Unsqueeze -> Conv -> Squeeze",
    ),
    Case(
        "separable_conv2d",
        built(layers.SeparableConv2D, _SHAPE, 6, 3, strides=2, padding="same"),
        _IMAGES,
        expect=_SEPARABLE,
    ),
    Case(
        "separable_conv1d",
        built(layers.SeparableConv1D, (None, 9, 4), 6, 3),
        [("B", 9, 4)],
        expect="Transpose -> Unsqueeze -> Conv -> Squeeze -> Conv -> Transpose",
    ),
    Case(
        "conv2d_transpose",
        built(layers.Conv2DTranspose, _SHAPE, 6, 3, strides=2, padding="same"),
        _ANY_SIZE,
        expect=_TRANSPOSED,
    ),
    Case(
        "conv2d_transpose_valid",
        built(layers.Conv2DTranspose, _SHAPE, 6, (3, 2), strides=(2, 1), use_bias=False),
        _IMAGES,
        expect=_TRANSPOSED,
    ),
    Case(
        "conv2d_transpose_with_output_padding",
        built(layers.Conv2DTranspose, _SHAPE, 6, 4, strides=3, padding="same", output_padding=1),
        _IMAGES,
        expect=_TRANSPOSED,
    ),
    Case(
        "conv1d_transpose_channels_first",
        built(layers.Conv1DTranspose, (None, 4, 9), 6, 3, dilation_rate=2, activation="tanh", **_FIRST),
        [("B", 4, 9)],
        expect="Conv -> Tanh",
    ),
    Case(
        "conv3d_transpose",
        built(layers.Conv3DTranspose, (None, 3, 4, 2, 2), 3, 2, strides=2),
        [("B", 3, 4, 2, 2)],
        expect=_TRANSPOSED,
    ),
]
