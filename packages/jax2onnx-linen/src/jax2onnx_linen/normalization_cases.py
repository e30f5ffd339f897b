"""Cases of `normalization`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax
import numpy as np
from jax2onnx_core import Case, construct, expect_graph, with_dtype
from jax2onnx_lax.nn.flax_layers import IMAGES, TOKENS, normalization_cases

from jax2onnx_linen._trained import library, trained

__all__ = ["cases"]

_DTYPE = {"dtype": with_dtype()}
_TOKEN, _IMAGE = (1, 8), (1, 6, 5, 8)
# The scale of a layer whose statistics are computed by operators of their own.
_SCALE = "Add -> Sqrt -> Reciprocal"
_LAYER_NORM, _FACTOR = "LayerNormalization", "Mul -> Add"


class ConvNorm(nn.Module):
    """A convolution and its batch norm, at inference."""

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        return nn.relu(nn.BatchNorm(use_running_average=True)(nn.Conv(6, (3, 3), use_bias=False)(x)))


class Normed(nn.Module):
    """A dense layer whose weights are normalised, by a vector of another collection where it is a spectral norm."""

    spectral: bool

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        return nn.SpectralNorm(nn.Dense(6))(x, update_stats=False) if self.spectral else nn.WeightNorm(nn.Dense(6))(x)


def _mapped(layer: type[nn.Module], shape: tuple[int, ...], **options: Any) -> Callable[[jax.Array], jax.Array]:
    return jax.vmap(trained(layer, shape, **options))


def _by_a_flag(**options: Any) -> Callable[[jax.Array, jax.Array], Any]:
    """A batch norm that is at inference where an input says so, and its statistics."""
    module, variables = trained(nn.BatchNorm, _IMAGE, use_running_average=True, **options).unbind()
    module = module.copy(use_running_average=None)

    def call(x: jax.Array, inference: jax.Array) -> Any:
        return module.apply(variables, x, use_running_average=inference, mutable=["batch_stats"])

    return call


cases = [
    *normalization_cases(library),
    Case(
        "layer_norm_mapped", construct(_mapped, nn.LayerNorm, (8,), **_DTYPE), [("B", 8)], expect=_LAYER_NORM, rtol=1e-5
    ),
    Case(
        "batch_norm_mapped",
        construct(_mapped, nn.BatchNorm, (6, 5, 8), use_running_average=True, axis=0, **_DTYPE),
        [IMAGES],
        expect=_FACTOR,
    ),
    Case(
        "batch_norm_by_a_flag",
        construct(_by_a_flag, **_DTYPE),
        [IMAGES, ((), np.bool_)],
        expect=expect_graph(counts={"If": 1}),
        rtol=1e-5,
    ),
    Case(
        "batch_norm_goes_into_the_convolution",
        construct(trained, ConvNorm, (1, 6, 5, 4), **_DTYPE),
        [("B", 6, 5, 4)],
        expect="Transpose -> Conv -> Transpose -> Relu",
    ),
    Case(
        "group_norm_mapped",
        construct(_mapped, nn.GroupNorm, _IMAGE, num_groups=2, **_DTYPE),
        [(2, *_IMAGE)],
        expect=expect_graph(
            "Reshape -> Mul -> ReduceMean:2x1x2", f"{_SCALE} -> Mul -> Mul:2x1x6x5x8 -> Add", counts={"ReduceMean": 2}
        ),
        rtol=1e-5,
    ),
    Case(
        "weight_norm",
        construct(trained, Normed, _TOKEN, spectral=False, **_DTYPE),
        [TOKENS],
        expect="MatMul -> Add",
    ),
    Case(
        "spectral_norm",
        construct(trained, Normed, _TOKEN, spectral=True, **_DTYPE),
        [TOKENS],
        expect="MatMul -> Add",
    ),
]
