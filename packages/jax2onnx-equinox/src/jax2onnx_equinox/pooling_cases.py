"""Cases of `pooling`."""

from __future__ import annotations

from typing import Any

import equinox as eqx
from jax2onnx_core import Case, expect_graph

from jax2onnx_equinox._mapped import mapped

__all__ = ["cases"]

_IMAGES, _ANY_SIZE = [("B", 3, 9, 8)], [("B", 3, "H", "W")]
_AVG, _MAX = "AveragePool", "MaxPool"


def _case(name: str, layer: Any, inputs: Any, *, maps: int = 1, **options: Any) -> Case:
    return Case(name, mapped(layer, maps), inputs, **options)


cases = [
    _case("avg_pool", eqx.nn.AvgPool2d(2, 2), _IMAGES, covers=("nn.avg_pool",), expect=_AVG),
    _case("avg_pool_padded", eqx.nn.AvgPool2d(3, 2, padding=((1, 0), (1, 1))), _IMAGES, expect=_AVG),
    _case("avg_pool_of_ceiled_sizes", eqx.nn.AvgPool2d(3, 2, use_ceil=True), _IMAGES, expect=_AVG),
    _case("max_pool", eqx.nn.MaxPool2d(3, 2, padding=1), _ANY_SIZE, covers=("nn.max_pool",), expect=_MAX),
    _case(
        "max_pool_of_signals",
        eqx.nn.MaxPool1d(2),
        [("B", 3, "T")],
        expect=["MaxPool:Bx3xT -> Slice:Bx3xT - 1", "Shape -> Sub -> Slice"],
    ),
    _case("max_pool_of_volumes", eqx.nn.MaxPool3d(2, 2), [("B", 3, 4, 6, 4)], expect=_MAX),
    _case(
        "max_pool_of_one_image", eqx.nn.MaxPool2d(2, 2), [(3, 8, 8)], maps=0, expect="Unsqueeze -> MaxPool -> Squeeze"
    ),
    _case(
        "max_pool_mapped_twice",
        eqx.nn.MaxPool2d(2, 2),
        [(2, 3, 3, 8, 8)],
        maps=2,
        expect="Reshape -> MaxPool:6x3x4x4 -> Reshape",
    ),
    _case("adaptive_avg_pool", eqx.nn.AdaptiveAvgPool2d((3, 4)), _IMAGES, expect=_AVG),
    _case("adaptive_max_pool", eqx.nn.AdaptiveMaxPool2d((3, 4)), _IMAGES, expect=_MAX),
    _case(
        "adaptive_avg_pool_of_other_sizes",
        eqx.nn.AdaptiveAvgPool2d((2, 3)),
        _IMAGES,
        expect=expect_graph(
            "Slice -> Transpose -> Reshape -> ReduceMean:Bx8x3x1 -> Concat:Bx8x3x2"
            " -> Transpose -> Slice -> Reshape -> ReduceMean:Bx2x3x2 -> Concat:Bx2x3x3 -> Transpose",
            counts={"Slice": 4, "ReduceMean": 4, "Transpose": 4},
        ),
    ),
    _case("adaptive_avg_pool_to_one", eqx.nn.AdaptiveAvgPool2d(1), _ANY_SIZE, expect="ReduceMean"),
]
