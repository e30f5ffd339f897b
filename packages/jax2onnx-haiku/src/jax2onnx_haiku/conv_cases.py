"""Cases of convolutions."""

from __future__ import annotations

import haiku as hk
import jax.numpy as jnp

from jax2onnx_haiku._layer_case import layer_case

__all__ = ["cases"]

_CONV = "Transpose -> Conv -> Transpose"
_TRANSPOSED = "Transpose -> ConvTranspose -> Transpose"
_IMAGES, _ANY_SIZE = [("B", 9, 7, 4)], [("B", "H", "W", 4)]

cases = [
    layer_case("conv", lambda x: hk.Conv2D(6, 3)(x), _ANY_SIZE, expect=_CONV),
    layer_case("conv_strided", lambda x: hk.Conv2D(6, (3, 4), stride=(2, 3))(x), _IMAGES, expect=_CONV),
    layer_case("conv_valid", lambda x: hk.Conv2D(6, 3, padding="VALID")(x), _IMAGES, expect=_CONV),
    layer_case(
        "conv_dilated_in_groups", lambda x: hk.Conv2D(6, 3, rate=2, feature_group_count=2)(x), _IMAGES, expect=_CONV
    ),
    layer_case(
        "conv_padded_without_bias",
        lambda x: hk.Conv2D(4, 3, padding=((1, 2), (0, 3)), with_bias=False)(x),
        _IMAGES,
        expect=_CONV,
    ),
    layer_case(
        "conv_causal", lambda x: hk.Conv1D(6, 3, rate=2, padding=hk.pad.causal)(x), [("B", "T", 4)], expect=_CONV
    ),
    layer_case("conv_of_volumes", lambda x: hk.Conv3D(3, (3, 3, 2))(x), [("B", 5, 6, 4, 2)], expect=_CONV),
    layer_case(
        "conv_of_one_image",
        lambda x: hk.Conv2D(6, 3)(x),
        [(9, 7, 4)],
        expect="Unsqueeze -> Transpose -> Conv -> Transpose -> Squeeze",
    ),
    layer_case("conv_vmapped", lambda x: hk.vmap(hk.Conv2D(6, 3), split_rng=False)(x), _ANY_SIZE, expect=_CONV),
    layer_case(
        "conv_masked",
        lambda x: hk.Conv1D(6, 3, mask=jnp.arange(72).reshape(3, 4, 6) % 3)(x),
        [("B", 9, 4)],
        expect=_CONV,
    ),
    layer_case(
        "conv_channels_first",
        lambda x: hk.Conv2D(6, 3, data_format="NCHW")(x),
        [("B", 4, "H", "W")],
        expect="Conv",
    ),
    layer_case("conv_depthwise", lambda x: hk.DepthwiseConv2D(2, 3)(x), _ANY_SIZE, expect=_CONV),
    layer_case(
        "conv_depthwise_strided", lambda x: hk.DepthwiseConv1D(1, 3, stride=2, with_bias=False)(x), [("B", 9, 4)],
        expect="Transpose -> Unsqueeze -> Conv -> Squeeze -> Transpose",
    ),
    layer_case(
        "conv_separable",
        lambda x: hk.SeparableDepthwiseConv2D(1, 3)(x),  # type: ignore[attr-defined]  # not in its `__all__`
        _ANY_SIZE,
        expect="Transpose -> Conv -> Conv -> Transpose",
    ),
    layer_case(
        "conv_transpose",
        lambda x: hk.Conv2DTranspose(6, 3, stride=2)(x),
        _ANY_SIZE,
        expect=_TRANSPOSED,
    ),
    layer_case(
        "conv_transpose_valid",
        lambda x: hk.Conv2DTranspose(6, (3, 2), stride=(2, 1), padding="VALID", with_bias=False)(x),
        _IMAGES,
        expect=_TRANSPOSED,
    ),
    layer_case(
        "conv_transpose_padded",
        lambda x: hk.Conv1DTranspose(6, 4, stride=2, padding=[(2, 1)])(x),
        [("B", "T", 4)],
        expect=_TRANSPOSED,
    ),
    layer_case(
        "conv_transpose_to_a_shape",
        lambda x: hk.Conv1DTranspose(6, 3, stride=2, output_shape=17)(x),
        [("B", 9, 4)],
        expect=_TRANSPOSED,
    ),
    layer_case(
        "conv_transpose_channels_first",
        lambda x: hk.Conv2DTranspose(6, 3, stride=2, data_format="NCHW")(x),
        [("B", 4, "H", "W")],
        expect="ConvTranspose",
    ),
]  # fmt: skip
