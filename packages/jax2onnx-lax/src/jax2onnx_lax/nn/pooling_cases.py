"""Cases of `pooling`."""

from __future__ import annotations

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax2onnx_core import Call, Case, bind_composite, expect_graph

from jax2onnx_lax.padding import Padding

__all__ = ["cases"]

_IMAGES, _ANY_SIZE = [("B", 9, 7, 4)], [("B", "H", "W", 4)]
_WINDOW, _STRIDES = (3, 2), (2, 1)
_AVERAGE = "Transpose -> AveragePool -> Transpose"
_MAX = "Transpose -> MaxPool -> Transpose"


def _reduced(
    x: jax.Array, initial: float, combine: Callable[[jax.Array, jax.Array], jax.Array], padding: Padding
) -> jax.Array:
    images = x if x.ndim == 4 else x[None]
    pairs = padding if isinstance(padding, str) else ((0, 0), *padding, (0, 0))
    y = lax.reduce_window(images, np.asarray(initial, x.dtype), combine, (1, *_WINDOW, 1), (1, *_STRIDES, 1), pairs)
    return y if x.ndim == 4 else y[0]


def _average(padding: Padding, *, count_include_pad: bool = True) -> Callable[[jax.Array], jax.Array]:
    def avg_pool(x: jax.Array) -> jax.Array:
        def original() -> jax.Array:
            count = math.prod(_WINDOW) if count_include_pad else _reduced(jnp.ones_like(x), 0.0, lax.add, padding)
            return _reduced(x, 0.0, lax.add, padding) / count

        params = {"padding": padding, "count_include_pad": count_include_pad}
        return bind_composite("nn.avg_pool", Call(x, window=_WINDOW, strides=_STRIDES, **params), original)

    return avg_pool


def _extremum(name: str, padding: Padding) -> Callable[[jax.Array], jax.Array]:
    initial, combine = (-np.inf, lax.max) if name == "max" else (np.inf, lax.min)

    def pool(x: jax.Array) -> jax.Array:
        call = Call(x, window=_WINDOW, strides=_STRIDES, padding=padding)
        return bind_composite(f"nn.{name}_pool", call, lambda: _reduced(x, initial, combine, padding))

    return pool


def _of_channels_first(x: jax.Array) -> jax.Array:
    windows = ((1,) * (x.ndim - 2) + _WINDOW, (1,) * (x.ndim - 2) + _STRIDES)

    def original() -> jax.Array:
        return lax.reduce_window(x, np.asarray(-np.inf, x.dtype), lax.max, *windows, "VALID")

    call = Call(x, window=_WINDOW, strides=_STRIDES, padding="VALID", channels_first=True)
    return bind_composite("nn.max_pool", call, original)


_PADDED = ((1, 2), (0, 1))
_average_covers, _max_covers = ("nn.avg_pool",), ("nn.max_pool",)

cases = [
    Case("nn_avg_pool", _average("VALID"), _IMAGES, covers=_average_covers, expect=_AVERAGE),
    Case("nn_avg_pool_same_any_size", _average("SAME"), _ANY_SIZE, covers=_average_covers, expect=_AVERAGE),
    Case("nn_avg_pool_padded", _average(_PADDED), _IMAGES, covers=_average_covers, expect=_AVERAGE),
    Case(
        "nn_avg_pool_excluding_padding",
        _average(_PADDED, count_include_pad=False),
        _IMAGES,
        covers=_average_covers,
        expect=_AVERAGE,
    ),
    Case("nn_max_pool", _extremum("max", _PADDED), _ANY_SIZE, covers=_max_covers, expect=_MAX),
    Case("nn_max_pool_same", _extremum("max", "SAME"), _IMAGES, covers=_max_covers, expect=_MAX),
    Case("nn_max_pool_of_one_image", _extremum("max", "VALID"), [(9, 7, 4)], covers=_max_covers,
         expect="Unsqueeze -> Transpose -> MaxPool -> Transpose -> Squeeze"),
    Case(
        "nn_max_pool_of_channels_first",
        _of_channels_first,
        [("B", 4, 9, 7)],
        covers=_max_covers,
        expect="MaxPool",
    ),
    Case(
        "nn_max_pool_of_channels_first_in_batches",
        _of_channels_first,
        [(2, 3, 4, 9, 7)],
        covers=_max_covers,
        expect="Reshape -> MaxPool -> Reshape",
    ),
    Case("nn_max_pool_of_channels_first_one_image", _of_channels_first, [(4, 9, 7)], covers=_max_covers,
         expect="Unsqueeze -> MaxPool -> Squeeze"),
    Case("nn_max_pool_wide_padding", _extremum("max", ((3, 0), (0, 0))), _IMAGES, covers=_max_covers,
         expect=["Pad -> Slice -> Max -> Max -> Slice -> Max", "Slice -> Max", "Slice -> Max", "Slice -> Max"],
         declines="negative padding, or padding as wide as a window"),
    Case(
        "nn_min_pool",
        _extremum("min", "SAME"),
        _ANY_SIZE,
        covers=("nn.min_pool",),
        expect=expect_graph("Neg -> Transpose -> MaxPool -> Transpose -> Neg", match="path"),
    ),
]  # fmt: skip
