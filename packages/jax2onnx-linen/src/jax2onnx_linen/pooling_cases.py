"""Cases of `pooling`."""

from __future__ import annotations

import functools

import flax.linen as nn
import jax
from flax.linen.pooling import min_pool
from jax2onnx_core import Case, expect_graph

__all__ = ["cases"]

_AVERAGE = expect_graph("Transpose -> AveragePool -> Transpose", match="exact")
_MAX = expect_graph("Transpose -> MaxPool -> Transpose", match="exact")
_IMAGES, _ANY_SIZE = [("B", 9, 7, 4)], [("B", "H", "W", 4)]
_average = functools.partial(nn.avg_pool, window_shape=(3, 2), strides=(2, 1))
_max = functools.partial(nn.max_pool, window_shape=(3, 2), strides=(2, 1))

cases = [
    Case("avg_pool", functools.partial(_average, padding="SAME"), _ANY_SIZE, covers=("nn.avg_pool",), expect=_AVERAGE),
    Case(
        "avg_pool_excluding_padding",
        functools.partial(_average, padding=((1, 2), (0, 1)), count_include_pad=False),
        _IMAGES,
        expect=_AVERAGE,
    ),
    Case("max_pool", functools.partial(_max, padding="SAME"), _ANY_SIZE, covers=("nn.max_pool",), expect=_MAX),
    Case("max_pool_mapped", jax.vmap(_max), _IMAGES, expect=_MAX),
    Case(
        "min_pool",
        functools.partial(min_pool, window_shape=(3, 3), strides=(2, 2), padding="SAME"),
        _IMAGES,
        covers=("nn.min_pool",),
        expect=expect_graph("Neg -> Transpose -> MaxPool -> Transpose -> Neg", match="path"),
    ),
]
