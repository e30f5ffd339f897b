"""Cases of `conv`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax
from jax2onnx_core import Case, construct, expect_graph, with_dtype

from jax2onnx_linen._trained import trained

__all__ = ["cases"]

_DTYPE = {"dtype": with_dtype()}
_CONV = expect_graph("Transpose -> Conv -> Transpose", match="exact")
_TRANSPOSED = expect_graph("Transpose -> ConvTranspose -> Transpose", match="exact")
_ANY, _IMAGES, _ONE = [("B", "H", "W", 4)], [("B", 9, 7, 4)], (1, 9, 7, 4)


def _mapped(*args: Any, **options: Any) -> Callable[[jax.Array], jax.Array]:
    return jax.vmap(trained(nn.Conv, (9, 7, 4), *args, **options))


cases = [
    Case("conv", construct(trained, nn.Conv, _ONE, 6, (3, 3), **_DTYPE), _ANY, expect=_CONV),
    Case(
        "conv_strided_dilated_in_groups",
        construct(
            trained,
            nn.Conv,
            _ONE,
            6,
            (3, 2),
            strides=2,
            kernel_dilation=(1, 2),
            feature_group_count=2,
            padding=((1, 2), (0, 3)),
            use_bias=False,
            **_DTYPE,
        ),
        _IMAGES,
        expect=_CONV,
    ),
    Case(
        "conv_causal",
        construct(trained, nn.Conv, (1, 9, 4), 6, 3, padding="CAUSAL", kernel_dilation=2, **_DTYPE),
        [("B", "T", 4)],
        expect=_CONV,
    ),
    Case(
        "conv_circular",
        construct(trained, nn.Conv, _ONE, 6, (3, 3), padding="CIRCULAR", **_DTYPE),
        _IMAGES,
        expect=expect_graph(
            "Transpose -> Slice -> Concat:Bx4x11x7 -> Slice -> Concat:Bx4x11x9 -> Conv:Bx6x9x7 -> Transpose",
            counts={"Slice": 4},
            match="exact",
        ),
    ),
    Case("conv_mapped", construct(_mapped, 6, (3, 3), **_DTYPE), _IMAGES, expect=_CONV),
    Case(
        "conv_of_videos",
        construct(trained, nn.Conv, _ONE, 6, (3, 3), **_DTYPE),
        [("B", "T", 9, 7, 4)],
        expect=expect_graph(
            "Reshape:B*Tx9x7x4 -> Transpose -> Conv -> Transpose -> Reshape:BxTx9x7x6",
            "Shape -> Concat",
            counts={"Shape": 2},
            match="exact",
        ),
    ),
    Case(
        "conv_local",
        construct(trained, nn.ConvLocal, _ONE, 6, (3, 3), **_DTYPE),
        [_ONE],
        # The convolution takes the windows, the product has weights of its own for each of them.
        expect=expect_graph(
            "Transpose -> Conv:1x36x9x7 -> Transpose -> Reshape -> MatMul:9x7x1x6 -> Reshape -> Add", match="exact"
        ),
    ),
    Case(
        "conv_dilated_input",
        construct(trained, nn.Conv, _ONE, 6, (3, 3), input_dilation=2, padding=((1, 1), (2, 0)), **_DTYPE),
        _IMAGES,
        expect=_TRANSPOSED,
    ),
    Case(
        "conv_transpose",
        construct(trained, nn.ConvTranspose, _ONE, 6, (3, 3), strides=(2, 2), **_DTYPE),
        _ANY,
        expect=_TRANSPOSED,
    ),
    Case(
        "conv_transpose_of_transposed_kernel",
        construct(
            trained, nn.ConvTranspose, _ONE, 6, (4, 3), strides=(2, 1), transpose_kernel=True, padding="VALID", **_DTYPE
        ),
        _IMAGES,
        expect=_TRANSPOSED,
    ),
    Case(
        "conv_transpose_dilated",
        construct(
            trained,
            nn.ConvTranspose,
            _ONE,
            6,
            (3, 3),
            strides=(2, 2),
            kernel_dilation=(2, 2),
            padding=((1, 2), (2, 1)),
            use_bias=False,
            **_DTYPE,
        ),
        _IMAGES,
        expect=_TRANSPOSED,
    ),
]
