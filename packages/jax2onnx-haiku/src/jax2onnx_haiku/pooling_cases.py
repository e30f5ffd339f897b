"""Cases of `pooling`."""

from __future__ import annotations

import haiku as hk
from jax2onnx_core import expect_graph

from jax2onnx_haiku._layer_case import layer_case

__all__ = ["cases"]

_IMAGES, _ANY_SIZE = [("B", 9, 7, 4)], [("B", "H", "W", 4)]
_AVERAGE = "Transpose -> AveragePool -> Transpose"
_MAX = "Transpose -> MaxPool -> Transpose"

cases = [
    layer_case(
        "avg_pool",
        lambda x: hk.avg_pool(x, (2, 2, 1), (2, 2, 1), "SAME"),
        _ANY_SIZE,
        covers=("nn.avg_pool",),
        expect=_AVERAGE,
    ),
    layer_case(
        "avg_pool_valid", lambda x: hk.AvgPool((1, 3, 2, 1), (1, 2, 1, 1), "VALID")(x), _IMAGES, expect=_AVERAGE
    ),
    layer_case(
        "avg_pool_channels_first",
        lambda x: hk.avg_pool(x, (1, 3, 3), (1, 2, 2), "SAME"),
        [("B", 4, "H", "W")],
        expect="AveragePool",
    ),
    layer_case(
        "max_pool",
        lambda x: hk.max_pool(x, (3, 3, 1), (2, 2, 1), "SAME"),
        _ANY_SIZE,
        covers=("nn.max_pool",),
        expect=_MAX,
    ),
    layer_case("max_pool_valid", lambda x: hk.MaxPool((2, 2, 1), (2, 2, 1), "VALID")(x), _IMAGES, expect=_MAX),
    layer_case(
        "max_pool_channels_first",
        lambda x: hk.max_pool(x, (1, 3, 3), (1, 2, 2), "SAME"),
        [("B", 4, "H", "W")],
        expect="MaxPool",
    ),
    layer_case(
        "max_pool_vmapped",
        lambda x: hk.vmap(lambda image: hk.max_pool(image, (2, 2, 1), (2, 2, 1), "SAME"), split_rng=False)(x),
        _ANY_SIZE,
        expect=_MAX,
    ),
    layer_case(
        "max_pool_of_all_axes",
        lambda x: hk.max_pool(x, (2, 2, 2), (2, 2, 2), "SAME"),
        _IMAGES,
        expect=expect_graph("Unsqueeze:1xBx9x7x4 -> MaxPool", "If:1xBx5x4x2 -> Squeeze", counts={"MaxPool": 1}),
    ),
]
