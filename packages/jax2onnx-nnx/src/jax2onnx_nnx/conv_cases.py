"""Cases of `conv`."""

from __future__ import annotations

from flax import nnx
from jax2onnx_core import Case, construct, expect_graph, with_dtype, with_rngs

__all__ = ["cases"]

_OPTIONS = {"param_dtype": with_dtype(), "rngs": with_rngs(0)}
_CONV = expect_graph("Transpose -> Conv -> Transpose", match="exact")
_TRANSPOSED = expect_graph("Transpose -> ConvTranspose -> Transpose", match="exact")
_IMAGES = [("B", 9, 7, 4)]

cases = [
    Case("conv", construct(nnx.Conv, 4, 6, (3, 3), **_OPTIONS), _IMAGES, expect=_CONV),
    Case("conv_any_size", construct(nnx.Conv, 4, 6, (3, 2), **_OPTIONS), [("B", "H", "W", 4)], expect=_CONV),
    Case(
        "conv_strided_any_size",
        construct(nnx.Conv, 4, 6, (3, 3), strides=2, **_OPTIONS),
        [("B", "H", "W", 4)],
        expect=_CONV,
    ),
    Case("conv_strided", construct(nnx.Conv, 4, 6, (3, 4), strides=(2, 3), **_OPTIONS), _IMAGES, expect=_CONV),
    Case(
        "conv_dilated_in_groups",
        construct(nnx.Conv, 4, 6, (3, 3), kernel_dilation=2, feature_group_count=2, **_OPTIONS),
        _IMAGES,
        expect=_CONV,
    ),
    Case(
        "conv_depthwise_padded",
        construct(nnx.Conv, 4, 4, (3, 3), padding=((1, 2), (0, 3)), feature_group_count=4, use_bias=False, **_OPTIONS),
        _IMAGES,
        expect=_CONV,
    ),
    Case("conv_valid", construct(nnx.Conv, 4, 6, (3, 3), padding="VALID", **_OPTIONS), _IMAGES, expect=_CONV),
    Case(
        "conv_causal",
        construct(nnx.Conv, 4, 6, 3, padding="CAUSAL", kernel_dilation=2, **_OPTIONS),
        [("B", "T", 4)],
        expect=_CONV,
    ),
    Case(
        "conv_circular",
        construct(nnx.Conv, 4, 6, (3, 3), padding="CIRCULAR", **_OPTIONS),
        _IMAGES,
        expect=expect_graph(
            "Transpose -> Slice -> Concat:Bx4x11x7 -> Slice -> Concat:Bx4x11x9 -> Conv:Bx6x9x7 -> Transpose",
            counts={"Slice": 4},
            match="exact",
        ),
    ),
    Case("conv_of_volumes", construct(nnx.Conv, 2, 3, (3, 3, 2), **_OPTIONS), [("B", 5, 6, 4, 2)], expect=_CONV),
    Case(
        "conv_of_one_image",
        construct(nnx.Conv, 4, 6, (3, 3), **_OPTIONS),
        [(9, 7, 4)],
        expect=expect_graph("Reshape -> Transpose -> Conv -> Transpose -> Reshape", match="exact"),
    ),
    Case(
        "conv_of_videos",
        construct(nnx.Conv, 4, 6, (3, 3), **_OPTIONS),
        [("B", "T", 9, 7, 4)],
        expect=expect_graph(
            "Reshape:B*Tx9x7x4 -> Transpose -> Conv -> Transpose -> Reshape:BxTx9x7x6",
            "Shape -> Concat",
            counts={"Shape": 2},
            match="exact",
        ),
    ),
    Case(
        "conv_dilated_input",
        construct(nnx.Conv, 4, 6, (3, 3), input_dilation=2, padding=((1, 1), (2, 0)), **_OPTIONS),
        _IMAGES,
        expect=_TRANSPOSED,
    ),
    Case(
        "conv_transpose",
        construct(nnx.ConvTranspose, 4, 6, (3, 3), strides=2, **_OPTIONS),
        [("B", "H", "W", 4)],
        expect=_TRANSPOSED,
    ),
    Case(
        "conv_transpose_valid",
        construct(nnx.ConvTranspose, 4, 6, (3, 2), strides=(2, 1), padding="VALID", **_OPTIONS),
        _IMAGES,
        expect=_TRANSPOSED,
    ),
    Case(
        "conv_transpose_stride_beyond_window",
        construct(nnx.ConvTranspose, 4, 6, (2, 2), strides=(3, 4), **_OPTIONS),
        _IMAGES,
        expect=_TRANSPOSED,
    ),
    Case(
        "conv_transpose_of_transposed_kernel",
        construct(nnx.ConvTranspose, 4, 6, (4, 3), strides=(2, 1), transpose_kernel=True, use_bias=False, **_OPTIONS),
        _IMAGES,
        expect=_TRANSPOSED,
    ),
    Case(
        "conv_transpose_dilated",
        construct(nnx.ConvTranspose, 4, 6, (3, 3), strides=2, kernel_dilation=2, padding=((1, 2), (2, 1)), **_OPTIONS),
        _IMAGES,
        expect=_TRANSPOSED,
    ),
    Case(
        "conv_transpose_circular",
        construct(nnx.ConvTranspose, 4, 6, (3, 3), strides=2, padding="CIRCULAR", **_OPTIONS),
        _IMAGES,
        expect=expect_graph(
            "Transpose -> ConvTranspose:Bx6x19x15 -> Transpose -> Pad:Bx54x42x6"
            " -> Reshape -> ReduceSum:Bx18x42x6 -> Reshape -> ReduceSum:Bx18x14x6 -> Add",
            match="exact",
        ),
    ),
]
