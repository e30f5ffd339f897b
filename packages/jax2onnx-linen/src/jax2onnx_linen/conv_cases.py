"""Cases of convolutions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax
from jax2onnx_core import Case, construct, with_dtype
from jax2onnx_lax.nn.flax_layers import conv_cases

from jax2onnx_linen._trained import library, trained

__all__ = ["cases"]

_DTYPE = {"dtype": with_dtype()}


def _mapped(*args: Any, **options: Any) -> Callable[[jax.Array], jax.Array]:
    return jax.vmap(trained(nn.Conv, (9, 7, 4), *args, **options))


cases = [
    *conv_cases(library),
    Case(
        "conv_mapped",
        construct(_mapped, 6, (3, 3), **_DTYPE),
        [("B", 9, 7, 4)],
        expect="Transpose -> Conv -> Transpose",
    ),
    Case(
        "conv_local",
        construct(trained, nn.ConvLocal, (1, 9, 7, 4), 6, (3, 3), **_DTYPE),
        [(1, 9, 7, 4)],
        # The convolution takes the windows, the product has weights of its own for each of them.
        expect="Transpose -> Conv:1x36x9x7 -> Transpose -> Reshape -> MatMul:9x7x1x6 -> Reshape -> Add",
    ),
]
