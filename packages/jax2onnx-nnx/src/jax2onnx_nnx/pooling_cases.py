"""Cases of `pooling`, and of the poolings that need no composite."""

from __future__ import annotations

import functools

from flax import nnx
from jax2onnx_core import Case, expect_graph

__all__ = ["cases"]

_POOLED = expect_graph("Transpose -> AveragePool -> Transpose", match="exact")
_IMAGES = [("B", 9, 7, 4)]
_average = functools.partial(nnx.avg_pool, window_shape=(3, 2), strides=(2, 1))

cases = [
    Case("avg_pool", _average, _IMAGES, covers=("nnx.avg_pool",), expect=_POOLED),
    Case("avg_pool_same", functools.partial(_average, padding="SAME"), _IMAGES, expect=_POOLED),
    Case("avg_pool_same_any_size", functools.partial(_average, padding="SAME"), [("B", "H", "W", 4)], expect=_POOLED),
    Case(
        "avg_pool_excluding_padding",
        functools.partial(_average, padding=((1, 2), (0, 1)), count_include_pad=False),
        _IMAGES,
        expect=_POOLED,
    ),
    Case("avg_pool_of_one_image", _average, [(9, 7, 4)]),
    Case("max_pool", functools.partial(nnx.max_pool, window_shape=(2, 2), strides=(2, 2)), _IMAGES),
    Case("min_pool", functools.partial(nnx.min_pool, window_shape=(3, 3), strides=(2, 2), padding="SAME"), _IMAGES),
]
