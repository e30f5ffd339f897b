"""Cases of `conv`."""

from __future__ import annotations

from collections.abc import Callable

import jax
from jax import lax
from jax2onnx_core import Call, Case, bind_composite, expect_graph

from jax2onnx_lax.nn._weights import weights
from jax2onnx_lax.padding import Padding

__all__ = ["cases"]

_CONV = "Transpose -> Conv -> Transpose"
_TRANSPOSED = "Transpose -> ConvTranspose -> Transpose"
_IMAGES, _ANY_SIZE = [("B", 9, 7, 4)], [("B", "H", "W", 4)]
_NHWC = ("NHWC", "HWIO", "NHWC")


def _conv(
    padding: Padding = "SAME", strides: tuple[int, int] = (1, 1), dilations: tuple[int, int] = (1, 1), groups: int = 1
) -> Callable[[jax.Array], jax.Array]:
    def conv(x: jax.Array) -> jax.Array:
        kernel, bias = weights(3, 2, 4 // groups, 6).astype(x.dtype), weights(6).astype(x.dtype)

        def original() -> jax.Array:
            return lax.conv_general_dilated(x, kernel, strides, padding, (1, 1), dilations, _NHWC, groups) + bias

        call = Call(x, kernel, bias, strides=strides, padding=padding, dilations=dilations, groups=groups)
        return bind_composite("nn.conv", call, original)

    return conv


def _transposed(
    padding: Padding, strides: tuple[int, int] = (2, 2), *, transpose_kernel: bool = False
) -> Callable[[jax.Array], jax.Array]:
    def conv_transpose(x: jax.Array) -> jax.Array:
        kernel = weights(3, 2, 5, 4) if transpose_kernel else weights(3, 2, 4, 5)
        kernel = kernel.astype(x.dtype)

        def original() -> jax.Array:
            return lax.conv_transpose(
                x, kernel, strides, padding, dimension_numbers=_NHWC, transpose_kernel=transpose_kernel
            )

        params = {"strides": strides, "padding": padding, "dilations": (1, 1), "transpose_kernel": transpose_kernel}
        return bind_composite("nn.conv_transpose", Call(x, kernel, None, **params), original)

    return conv_transpose


def _of_signals(x: jax.Array, kernel: jax.Array) -> jax.Array:
    def original() -> jax.Array:
        return lax.conv_general_dilated(x, kernel, (2,), "VALID", dimension_numbers=("NWC", "WIO", "NWC"))

    call = Call(x, kernel, None, strides=(2,), padding="VALID", dilations=(1,), groups=1)
    return bind_composite("nn.conv", call, original)


_covers, _covers_transposed = ("nn.conv",), ("nn.conv_transpose",)

cases = [
    Case("nn_conv", _conv(), _ANY_SIZE, covers=_covers, expect=_CONV),
    Case("nn_conv_strided", _conv(strides=(2, 3)), _IMAGES, covers=_covers, expect=_CONV),
    Case("nn_conv_strided_any_size", _conv(strides=(2, 2)), _ANY_SIZE, covers=_covers, expect=_CONV),
    Case("nn_conv_strided_and_dilated_any_size", _conv(strides=(2, 2), dilations=(2, 1)), _ANY_SIZE, covers=_covers,
         expect=expect_graph("Pad -> Conv", counts={"Conv": 1})),
    Case(
        "nn_conv_padded_in_groups",
        _conv(((1, 2), (0, 1)), dilations=(2, 1), groups=2),
        _IMAGES,
        covers=_covers,
        expect=_CONV,
    ),
    Case("nn_conv_cropped", _conv(((-1, 2), (0, 1))), _IMAGES, covers=_covers,
         expect="Slice -> Transpose -> Conv -> Transpose"),
    Case(
        "nn_conv_of_signals",
        _of_signals,
        [("B", "T", 3), (3, 3, 2)],
        covers=_covers,
        options={"constraints": ("T >= 3",)},
        expect=["Transpose -> Conv -> Transpose", "Transpose -> Conv"],
    ),
    Case("nn_conv_transpose_same", _transposed("SAME"), _ANY_SIZE, covers=_covers_transposed, expect=_TRANSPOSED),
    Case(
        "nn_conv_transpose_valid",
        _transposed("VALID", (1, 3)),
        _IMAGES,
        covers=_covers_transposed,
        expect=_TRANSPOSED,
    ),
    Case(
        "nn_conv_transpose_of_transposed_kernel",
        _transposed("SAME", transpose_kernel=True),
        _IMAGES,
        covers=_covers_transposed,
        expect=_TRANSPOSED,
    ),
    Case(
        "nn_conv_transpose_padded",
        _transposed(((1, 2), (0, 1))),
        _IMAGES,
        covers=_covers_transposed,
        expect=_TRANSPOSED,
    ),
    Case("nn_conv_transpose_far_padded", _transposed(((3, 2), (0, 4))), _IMAGES, covers=_covers_transposed,
         expect="Transpose -> ConvTranspose -> Transpose -> Pad"),
]  # fmt: skip
