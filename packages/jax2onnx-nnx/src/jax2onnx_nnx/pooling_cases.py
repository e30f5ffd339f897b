"""Cases of `pooling`."""

from __future__ import annotations

import functools

import flax.linen as nn
from flax import nnx
from jax2onnx_core import Case, expect_graph

__all__ = ["cases"]

_AVERAGE = expect_graph("Transpose -> AveragePool -> Transpose", match="exact")
_MAX = expect_graph("Transpose -> MaxPool -> Transpose", match="exact")
_IMAGES = [("B", 9, 7, 4)]
_ANY_SIZE = [("B", "H", "W", 4)]
_average = functools.partial(nnx.avg_pool, window_shape=(3, 2), strides=(2, 1))
_max = functools.partial(nnx.max_pool, window_shape=(3, 2), strides=(2, 1))

cases = [
    Case("avg_pool", _average, _IMAGES, covers=("nn.avg_pool",), expect=_AVERAGE),
    Case("avg_pool_same", functools.partial(_average, padding="SAME"), _IMAGES, expect=_AVERAGE),
    Case("avg_pool_same_any_size", functools.partial(_average, padding="SAME"), _ANY_SIZE, expect=_AVERAGE),
    Case(
        "avg_pool_excluding_padding",
        functools.partial(_average, padding=((1, 2), (0, 1)), count_include_pad=False),
        _IMAGES,
        expect=_AVERAGE,
    ),
    Case(
        "avg_pool_of_one_image",
        _average,
        [(9, 7, 4)],
        expect=expect_graph("Unsqueeze -> Transpose -> AveragePool -> Transpose -> Squeeze", match="exact"),
    ),
    Case("max_pool", _max, _IMAGES, covers=("nn.max_pool",), expect=_MAX),
    Case("max_pool_same_any_size", functools.partial(_max, padding="SAME"), _ANY_SIZE, expect=_MAX),
    Case(
        "max_pool_of_linen",
        functools.partial(nn.max_pool, window_shape=(2, 2), strides=(2, 2)),
        _IMAGES,
        expect=_MAX,
    ),
    Case(
        "max_pool_of_one_image",
        _max,
        [(9, 7, 4)],
        expect=expect_graph("Unsqueeze -> Transpose -> MaxPool -> Transpose -> Squeeze", match="exact"),
    ),
    Case(
        "min_pool",
        functools.partial(nnx.min_pool, window_shape=(3, 3), strides=(2, 2), padding="SAME"),
        _IMAGES,
        covers=("nn.min_pool",),
        expect=expect_graph("Neg -> Transpose -> MaxPool -> Transpose -> Neg", match="path"),
    ),
]
