"""Cases of `normalization`."""

from __future__ import annotations

import functools

from jax2onnx_core import Case, expect_graph
from keras import layers, ops

from jax2onnx_keras._built import built

__all__ = ["cases"]

_X, _TOKENS = (None, None, 8), [("B", "T", 8)]
_SHAPE, _IMAGES = (None, 6, 5, 8), [("B", 6, 5, 8)]
# The factor of a layer whose statistics are computed by operators of their own.
_FACTOR = "Add -> Sqrt -> Reciprocal"
_FOLDED = "Mul -> Add"
_LAYER_NORM = "LayerNormalization"

_close = functools.partial(Case, rtol=1e-5)

cases = [
    _close("batch_norm", built(layers.BatchNormalization, _SHAPE), _IMAGES, expect=_FOLDED),
    _close("batch_norm_over_axis_1", built(layers.BatchNormalization, _SHAPE, axis=1), _IMAGES, expect=_FOLDED),
    _close(
        "batch_norm_bare", built(layers.BatchNormalization, _SHAPE, center=False, scale=False), _IMAGES, expect=_FOLDED
    ),
    _close("layer_norm", built(layers.LayerNormalization, _X), _TOKENS, covers=("nn.layer_norm",), expect=_LAYER_NORM),
    _close(
        "layer_norm_bare", built(layers.LayerNormalization, _X, center=False, scale=False), _TOKENS, expect=_LAYER_NORM
    ),
    _close(
        "layer_norm_over_two_axes", built(layers.LayerNormalization, _SHAPE, axis=(-2, -1)), _IMAGES, expect=_LAYER_NORM
    ),
    _close(
        "layer_norm_over_axis_1",
        built(layers.LayerNormalization, _SHAPE, axis=1),
        _IMAGES,
        expect=expect_graph(
            f"ReduceMean:Bx1x5x8 -> Sub -> Mul -> ReduceSum -> Div -> {_FACTOR} -> Mul",
            counts={"ReduceMean": 1, "ReduceSum": 1},
            absent=["Transpose", "Reshape"],
        ),
    ),
    _close("layer_normalization_function", ops.layer_normalization, _TOKENS, expect=_LAYER_NORM),
    _close("rms_norm", built(layers.RMSNormalization, _X), _TOKENS, covers=("nn.rms_norm",), expect="RMSNormalization"),
    Case(
        "group_norm",
        built(layers.GroupNormalization, _SHAPE, 2),
        [("B", "H", "W", 8)],
        covers=("nn.group_norm",),
        expect=expect_graph("Transpose -> Reshape -> InstanceNormalization -> Reshape -> Transpose -> Mul -> Add"),
        rtol=1e-4,
    ),
    Case(
        "instance_norm",
        built(layers.GroupNormalization, _SHAPE, -1),
        [("B", 6, 5, 8)],
        expect="Transpose -> InstanceNormalization -> Transpose",
        rtol=1e-4,
    ),
    Case(
        "group_norm_over_axis_1",
        built(layers.GroupNormalization, (None, 8, 6, 5), 2, axis=1),
        [("B", 8, 6, 5)],
        expect=expect_graph(
            f"Reshape:Bx2x4x6x5 -> ReduceMean -> Sub -> Mul -> ReduceSum:Bx2x1x1x1 -> Div -> {_FACTOR} -> Mul",
            counts={"ReduceMean": 1, "ReduceSum": 1, "Reshape": 2},
            absent=["Transpose"],
        ),
        rtol=1e-4,
    ),
    Case(
        "unit_norm",
        built(layers.UnitNormalization, _X),
        _TOKENS,
        expect="Mul -> ReduceSum:BxTx1 -> Sqrt -> Reciprocal -> Min -> Mul",
    ),
]
