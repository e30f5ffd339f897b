"""Cases of `normalization`."""

from __future__ import annotations

import functools
from typing import Any

import haiku as hk
import jax
from jax2onnx_core import expect_graph

from jax2onnx_haiku._layer_case import layer_case

__all__ = ["cases"]

_TOKENS, _IMAGES, _CHANNELS_FIRST = [("B", "T", 8)], [("B", 6, 5, 8)], [("B", 8, 6, 5)]
_LAYER_NORM = "LayerNormalization"
_AFFINE = "Mul -> Add"
# The factor of a layer whose statistics are computed by operators of their own.
_FACTOR = "Add -> Sqrt -> Reciprocal"
_GROUPS = "Reshape -> InstanceNormalization -> Reshape"


def _batch_norm(x: jax.Array, **options: Any) -> jax.Array:
    """At inference, once it has statistics."""
    return hk.BatchNorm(create_scale=True, create_offset=True, decay_rate=0.9, **options)(x, hk.running_init())


_close = functools.partial(layer_case, rtol=1e-5)

cases = [
    _close(
        "layer_norm",
        lambda x: hk.LayerNorm(-1, create_scale=True, create_offset=True)(x),
        _TOKENS,
        covers=("nn.layer_norm",),
        expect=_LAYER_NORM,
    ),
    _close(
        "layer_norm_bare",
        lambda x: hk.LayerNorm(-1, create_scale=False, create_offset=False)(x),
        _TOKENS,
        expect=_LAYER_NORM,
    ),
    layer_case(
        "layer_norm_fast",
        lambda x: hk.LayerNorm(-1, create_scale=True, create_offset=False, use_fast_variance=True)(x),
        _TOKENS,
        expect=_LAYER_NORM,
        rtol=1e-4,
    ),
    _close(
        "layer_norm_of_images_by_channels",
        lambda x: hk.LayerNorm(slice(1, None), create_scale=True, create_offset=True)(x),
        _IMAGES,
        expect=_LAYER_NORM,
    ),
    _close(
        "layer_norm_of_images_by_elements",
        lambda x: hk.LayerNorm((1, 2, 3), create_scale=True, create_offset=True, param_axis=(1, 2, 3))(x),
        _IMAGES,
        expect=_LAYER_NORM,
    ),
    _close(
        "layer_norm_of_images_of_any_size",
        lambda x: hk.LayerNorm(slice(1, None), create_scale=True, create_offset=True)(x),
        [("B", "H", "W", 8)],
        # The number of elements, by which the sum is divided, is a product of symbols.
        expect=expect_graph(
            "Shape -> Mul -> Mul",
            f"ReduceMean -> Sub -> Mul -> ReduceSum -> Div:Bx1x1x1 -> Where -> {_FACTOR} -> Mul -> Mul -> Add",
            counts={"ReduceMean": 1, "ReduceSum": 1},
        ),
    ),
    _close(
        "layer_norm_of_given_scale",
        lambda x, s: hk.LayerNorm(-1, create_scale=False, create_offset=True)(x, scale=s),
        [*_TOKENS, (8,)],
        expect=_LAYER_NORM,
    ),
    _close(
        "layer_norm_vmapped",
        lambda x: hk.vmap(hk.LayerNorm(-1, create_scale=True, create_offset=True), split_rng=False)(x),
        _TOKENS,
        expect=_LAYER_NORM,
    ),
    _close("rms_norm", lambda x: hk.RMSNorm(-1)(x), _TOKENS, covers=("nn.rms_norm",), expect="RMSNormalization"),
    _close(
        "rms_norm_over_two_axes",
        lambda x: hk.RMSNorm((-2, -1))(x),
        [("B", 5, 8)],
        expect=expect_graph("Mul -> ReduceMean:Bx1x1", f"{_FACTOR} -> Mul", counts={"ReduceMean": 1}),
    ),
    layer_case(
        "instance_norm",
        lambda x: hk.InstanceNorm(create_scale=True, create_offset=True)(x),
        _IMAGES,
        expect="Transpose -> InstanceNormalization -> Transpose",
        rtol=1e-4,
    ),
    layer_case(
        "instance_norm_channels_first",
        lambda x: hk.InstanceNorm(create_scale=True, create_offset=True, data_format="NCHW")(x),
        _CHANNELS_FIRST,
        expect="InstanceNormalization",
        rtol=1e-4,
    ),
    _close(
        "group_norm",
        lambda x: hk.GroupNorm(2)(x),
        [("B", "H", "W", 8)],
        covers=("nn.group_norm",),
        expect=expect_graph(f"Transpose -> {_GROUPS} -> Transpose -> Mul -> Add"),
    ),
    _close(
        "group_norm_channels_first",
        lambda x: hk.GroupNorm(2, data_format="NCHW")(x),
        _CHANNELS_FIRST,
        expect=f"{_GROUPS} -> Mul -> Add",
    ),
    _close(
        "group_norm_by_image",
        lambda x: hk.GroupNorm(2, axis=(1, 3))(x),
        _IMAGES,
        expect=(
            "Reshape:Bx6x5x2x4 -> ReduceMean -> Sub -> Mul -> ReduceSum:Bx1x5x2x1 -> Div"
            f" -> {_FACTOR} -> Mul -> Reshape -> Mul -> Add"
        ),
    ),
    _close(
        "group_norm_of_axes",
        lambda x: hk.GroupNorm(2, axis=(3, 1, 2))(x),
        [("B", "H", "W", 8)],
        expect=expect_graph(f"Transpose -> {_GROUPS} -> Transpose -> Mul -> Add"),
    ),
    _close(
        "group_norm_of_axes_from_the_end",
        lambda x: hk.GroupNorm(2, axis=(-3, -2, -1))(x),
        _IMAGES,
        expect=expect_graph(absent=["InstanceNormalization"]),
    ),
    layer_case("batch_norm", _batch_norm, _IMAGES, covers=("nn.batch_norm",), expect=_AFFINE),
    layer_case(
        "batch_norm_channels_first", lambda x: _batch_norm(x, data_format="NCHW"), _CHANNELS_FIRST, expect=_AFFINE
    ),
    layer_case(
        "batch_norm_by_position", lambda x: _batch_norm(x, axis=(0,)), [("B", 5, 8)], expect="Sub -> Mul -> Add"
    ),
    layer_case(
        "batch_norm_of_its_batch",
        lambda x: hk.BatchNorm(create_scale=True, create_offset=True, decay_rate=0.9)(x, is_training=True),
        [("B", 6, 5, 8)],
        expect=expect_graph(
            "Mul -> ReduceMean:1x1x1x8 -> Sub", f"{_FACTOR} -> Mul -> Mul -> Add", counts={"ReduceMean": 2}
        ),
        rtol=1e-4,
    ),
    layer_case(
        "batch_norm_goes_into_the_convolution",
        lambda x: jax.nn.relu(_batch_norm(hk.Conv2D(6, 3, with_bias=False)(x))),
        [("B", 6, 5, 4)],
        expect="Transpose -> Conv -> Transpose -> Relu",
    ),
]
