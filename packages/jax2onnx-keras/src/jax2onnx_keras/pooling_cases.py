"""Cases of `pooling`."""

from __future__ import annotations

from jax2onnx_core import Case, expect_graph
from keras import layers, ops

from jax2onnx_keras._built import built

__all__ = ["cases"]

_SHAPE, _IMAGES = (None, 9, 7, 4), [("B", 9, 7, 4)]
_FIRST = {"data_format": "channels_first"}
_MAX = "Transpose -> MaxPool -> Transpose"
_AVERAGE = "Transpose -> AveragePool -> Transpose"

cases = [
    Case("max_pool", built(layers.MaxPooling2D, _SHAPE, 2), _IMAGES, covers=("nn.max_pool",), expect=_MAX),
    Case("max_pool_same", built(layers.MaxPooling2D, _SHAPE, (3, 2), 2, "same"), [("B", "H", "W", 4)], expect=_MAX),
    Case("max_pool_function", lambda x: ops.max_pool(x, 3, 1), [("B", 9, 4)], expect=_MAX),
    Case(
        "average_pool",
        built(layers.AveragePooling2D, _SHAPE, 3, 2),
        _IMAGES,
        covers=("nn.avg_pool",),
        expect=_AVERAGE,
    ),
    Case(
        "average_pool_same",
        built(layers.AveragePooling1D, (None, 9, 4), 3, 2, "same"),
        [("B", "T", 4)],
        expect=_AVERAGE,
    ),
    Case(
        "max_pool_channels_first",
        built(layers.MaxPooling2D, (None, 4, 9, 7), 2, **_FIRST),
        [("B", 4, 9, 7)],
        expect="MaxPool",
    ),
    Case(
        "global_max_pool",
        built(layers.GlobalMaxPooling2D, _SHAPE),
        _IMAGES,
        expect=expect_graph("Transpose -> MaxPool"),
    ),
    Case(
        "global_max_pool_any_length",
        built(layers.GlobalMaxPooling1D, (None, None, 4)),
        [("B", "T", 4)],
        expect=["ReduceMax:Bx4 -> Where", "Abs -> ReduceSum -> IsNaN -> Where"],
    ),
    Case(
        "global_max_pool_channels_first",
        built(layers.GlobalMaxPooling3D, (None, 2, 4, 3, 5), keepdims=True, **_FIRST),
        [("B", 2, 4, 3, 5)],
        expect="MaxPool",
    ),
    Case(
        "global_average_pool",
        built(layers.GlobalAveragePooling2D, _SHAPE),
        [("B", "H", "W", 4)],
        expect="Transpose -> GlobalAveragePool:Bx4x1x1 -> Flatten",
    ),
    Case(
        "global_average_pool_1d",
        built(layers.GlobalAveragePooling1D, (None, None, 4)),
        [("B", "T", 4)],
        expect="ReduceMean",
        rtol=1e-5,  # Keras takes the mean in float32
        atol=1e-6,
    ),
]
