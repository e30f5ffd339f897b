"""Cases of `normalization`."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax
from jax2onnx_core import Call, Case, bind_composite, expect_graph

from jax2onnx_lax._case_helpers import CLOSE
from jax2onnx_lax.nn._weights import weights

__all__ = ["cases"]

_EPSILON = 1e-5
_TOKENS, _IMAGES = [("B", "T", 8)], [("B", 6, 5, 8)]


def _standardized(x: jax.Array, axes: tuple[int, ...]) -> jax.Array:
    centred = x - x.mean(axes, keepdims=True)
    return centred * lax.rsqrt((centred**2).mean(axes, keepdims=True) + x.dtype.type(_EPSILON))


def _layer_norm(axes: int, *, scaled: bool) -> Callable[[jax.Array], jax.Array]:
    def layer_norm(x: jax.Array) -> jax.Array:
        shape = x.shape[-axes:]
        scale, bias = weights(*shape).astype(x.dtype), weights(*shape).astype(x.dtype)

        def original() -> jax.Array:
            y = _standardized(x, tuple(range(-axes, 0)))
            return y * scale + bias if scaled else y

        operands = (x, scale, bias) if scaled else (x, None, None)
        return bind_composite("nn.layer_norm", Call(*operands, axes=axes, epsilon=_EPSILON), original)

    return layer_norm


def _rms_norm(axes: int, *, biased: bool = False) -> Callable[[jax.Array], jax.Array]:
    def rms_norm(x: jax.Array) -> jax.Array:
        scale = weights(*x.shape[-axes:]).astype(x.dtype)
        bias = scale[::-1] if biased else None

        def original() -> jax.Array:
            mean = (x * x).mean(tuple(range(-axes, 0)), keepdims=True)
            y = x / jnp.sqrt(mean + x.dtype.type(_EPSILON)) * scale
            return y if bias is None else y + bias

        return bind_composite("nn.rms_norm", Call(x, scale, bias, axes=axes, epsilon=_EPSILON), original)

    return rms_norm


def _batch_norm(x: jax.Array) -> jax.Array:
    mean, scale, bias = (weights(8).astype(x.dtype) for _ in range(3))
    variance = (weights(8) + 1.5).astype(x.dtype)

    def original() -> jax.Array:
        return (x - mean) / jnp.sqrt(variance + x.dtype.type(_EPSILON)) * scale + bias

    return bind_composite("nn.batch_norm", Call(x, mean, variance, scale, bias, axis=-1, epsilon=_EPSILON), original)


def _batch_norm_of_inputs(x: jax.Array, mean: jax.Array, variance: jax.Array) -> jax.Array:
    def original() -> jax.Array:
        return (x - mean[:, None]) / jnp.sqrt(variance[:, None] + x.dtype.type(_EPSILON))

    return bind_composite("nn.batch_norm", Call(x, mean, variance, None, None, axis=1, epsilon=_EPSILON), original)


def _group_norm_of_channels_first(groups: int) -> Callable[[jax.Array], jax.Array]:
    def group_norm(x: jax.Array) -> jax.Array:
        scale, bias = weights(8).astype(x.dtype), weights(8).astype(x.dtype)
        space = x.ndim - 2

        def original() -> jax.Array:
            grouped = x.reshape(x.shape[0], groups, 8 // groups, *x.shape[2:])
            y = _standardized(grouped, tuple(range(2, grouped.ndim))).reshape(x.shape)
            return y * scale.reshape(8, *[1] * space) + bias.reshape(8, *[1] * space)

        call = Call(x, scale, bias, groups=groups, epsilon=_EPSILON, space=space)
        return bind_composite("nn.group_norm", call, original)

    return group_norm


def _group_norm(groups: int) -> Callable[[jax.Array], jax.Array]:
    def group_norm(x: jax.Array) -> jax.Array:
        scale, bias = weights(8).astype(x.dtype), weights(8).astype(x.dtype)

        def original() -> jax.Array:
            grouped = x.reshape(x.shape[0], math.prod(x.shape[1:-1]), groups, 8 // groups)
            return _standardized(grouped, (1, 3)).reshape(x.shape) * scale + bias

        return bind_composite("nn.group_norm", Call(x, scale, bias, groups=groups, epsilon=_EPSILON), original)

    return group_norm


_LAYER_NORM = "LayerNormalization"
_GROUP_NORM = expect_graph("Transpose -> Reshape -> InstanceNormalization -> Reshape -> Transpose -> Mul -> Add")
_INSTANCE_NORM = "Transpose -> InstanceNormalization -> Transpose"
_layer_covers, _rms_covers, _group_covers = ("nn.layer_norm",), ("nn.rms_norm",), ("nn.group_norm",)

_close = functools.partial(Case, rtol=CLOSE)

cases = [
    _close("nn_layer_norm", _layer_norm(1, scaled=True), _TOKENS, covers=_layer_covers, expect=_LAYER_NORM),
    _close("nn_layer_norm_bare", _layer_norm(1, scaled=False), _TOKENS, covers=_layer_covers, expect=_LAYER_NORM),
    _close(
        "nn_layer_norm_over_two_axes",
        _layer_norm(2, scaled=True),
        [("B", 3, 4)],
        covers=_layer_covers,
        expect=_LAYER_NORM,
    ),
    _close(
        "nn_rms_norm",
        _rms_norm(1),
        _TOKENS,
        covers=_rms_covers,
        expect="RMSNormalization",
        declines="there is an operator, or half precision needs float32 statistics",
    ),
    _close(
        "nn_rms_norm_biased", _rms_norm(1, biased=True), _TOKENS, covers=_rms_covers, expect="RMSNormalization -> Add"
    ),
    Case(
        "nn_rms_norm_over_two_axes_opset_18",
        _rms_norm(2),
        [("B", 3, 4)],
        covers=_rms_covers,
        options={"opset": 18},
        expect="Pow -> ReduceMean -> Add -> Sqrt -> Div -> Mul",
    ),
    Case(
        "nn_batch_norm",
        _batch_norm,
        _IMAGES,
        covers=("nn.batch_norm",),
        expect="Mul -> Add",
    ),
    Case(
        "nn_batch_norm_of_inputs",
        _batch_norm_of_inputs,
        [("B", 3, "T"), (3,), abs(weights(3)) + 0.5],
        expect=["Unsqueeze -> Sub -> Div", "Unsqueeze -> Add -> Sqrt -> Div"],
        declines="the statistics are not constants",
    ),
    _close("nn_group_norm", _group_norm(2), [("B", "H", "W", 8)], covers=_group_covers, expect=_GROUP_NORM),
    Case(
        "nn_group_norm_of_each_channel",
        _group_norm(8),
        _IMAGES,
        covers=_group_covers,
        expect=_INSTANCE_NORM,
    ),
    _close(
        "nn_group_norm_of_channels_first",
        _group_norm_of_channels_first(2),
        [("B", 8, "H", "W")],
        covers=_group_covers,
        expect=["Reshape -> InstanceNormalization -> Reshape -> Mul -> Add", "Shape -> Reshape"],
    ),
    _close(
        "nn_group_norm_of_vectors",
        _group_norm_of_channels_first(2),
        [("B", 8)],
        covers=_group_covers,
        expect="Reshape -> InstanceNormalization -> Reshape -> Mul -> Add",
    ),
    Case(
        "nn_group_norm_of_each_channel_first",
        _group_norm_of_channels_first(8),
        [("B", 8, 6, 5)],
        covers=_group_covers,
        expect="InstanceNormalization",
    ),
]
