"""Cases of `normalization`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jax2onnx_core import Case, construct, expect_graph, with_dtype

from jax2onnx_linen._trained import trained

__all__ = ["cases"]

_DTYPE = {"dtype": with_dtype()}
_TOKENS, _IMAGES, _ANY_SIZE = [("B", "T", 8)], [("B", 6, 5, 8)], [("B", "H", "W", 8)]
_TOKEN, _IMAGE = (1, 8), (1, 6, 5, 8)
# The scale of a layer whose statistics are computed by operators of their own.
_SCALE = "Add -> Sqrt -> Reciprocal"
_LAYER_NORM, _FACTOR = expect_graph("LayerNormalization", match="exact"), expect_graph("Mul -> Add", match="exact")


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


def _masked(**options: Any) -> Callable[[jax.Array], jax.Array]:
    norm = trained(nn.LayerNorm, _TOKEN, **options)
    return lambda x: norm(x, mask=jnp.arange(8) < 5)


def _by_a_flag(**options: Any) -> Callable[[jax.Array, jax.Array], Any]:
    """A batch norm that is at inference where an input says so, and its statistics."""
    module, variables = trained(nn.BatchNorm, _IMAGE, use_running_average=True, **options).unbind()
    module = module.copy(use_running_average=None)

    def call(x: jax.Array, inference: jax.Array) -> Any:
        return module.apply(variables, x, use_running_average=inference, mutable=["batch_stats"])

    return call


cases = [
    Case(
        "layer_norm",
        construct(trained, nn.LayerNorm, _TOKEN, **_DTYPE),
        _TOKENS,
        covers=("nn.layer_norm",),
        expect=_LAYER_NORM,
        rtol=1e-5,
    ),
    Case(
        "layer_norm_bare",
        construct(trained, nn.LayerNorm, _TOKEN, use_scale=False, use_bias=False, **_DTYPE),
        _TOKENS,
        expect=_LAYER_NORM,
        rtol=1e-5,
    ),
    Case(
        "layer_norm_mapped", construct(_mapped, nn.LayerNorm, (8,), **_DTYPE), [("B", 8)], expect=_LAYER_NORM, rtol=1e-5
    ),
    Case(
        "layer_norm_over_two_axes",
        construct(trained, nn.LayerNorm, (1, 1, 8), reduction_axes=(-2, -1), **_DTYPE),
        _TOKENS,
        expect=expect_graph(
            "ReduceMean:B -> Mul -> Sub -> Relu", f"{_SCALE} -> Mul -> Mul -> Add", counts={"ReduceMean": 2}
        ),
    ),
    Case(
        "layer_norm_masked",
        construct(_masked, **_DTYPE),
        _TOKENS,
        expect=expect_graph(
            "Where:BxTx8 -> ReduceSum:BxT -> Div", f"{_SCALE} -> Mul -> Mul -> Add", counts={"Where": 2, "ReduceSum": 3}
        ),
    ),
    Case(
        "rms_norm",
        construct(trained, nn.RMSNorm, _TOKEN, **_DTYPE),
        _TOKENS,
        covers=("nn.rms_norm",),
        expect=expect_graph("RMSNormalization", match="exact"),
        rtol=1e-5,
    ),
    Case(
        "batch_norm",
        construct(trained, nn.BatchNorm, _IMAGE, use_running_average=True, **_DTYPE),
        _IMAGES,
        covers=("nn.batch_norm",),
        expect=_FACTOR,
    ),
    Case(
        "batch_norm_channels_first",
        construct(trained, nn.BatchNorm, _IMAGE, use_running_average=True, axis=1, use_scale=False, **_DTYPE),
        _IMAGES,
        expect=_FACTOR,
    ),
    Case(
        "batch_norm_mapped",
        construct(_mapped, nn.BatchNorm, (6, 5, 8), use_running_average=True, axis=0, **_DTYPE),
        _IMAGES,
        expect=_FACTOR,
    ),
    Case(
        "batch_norm_by_a_flag",
        construct(_by_a_flag, **_DTYPE),
        [*_IMAGES, ((), np.bool_)],
        expect=expect_graph(counts={"If": 1}),
        rtol=1e-5,
    ),
    Case(
        "batch_norm_goes_into_the_convolution",
        construct(trained, ConvNorm, (1, 6, 5, 4), **_DTYPE),
        [("B", 6, 5, 4)],
        expect=expect_graph("Transpose -> Conv -> Transpose -> Relu", match="exact"),
    ),
    Case(
        "group_norm",
        construct(trained, nn.GroupNorm, _IMAGE, 2, **_DTYPE),
        _ANY_SIZE,
        covers=("nn.group_norm",),
        expect=expect_graph("Transpose -> Reshape -> InstanceNormalization -> Reshape -> Transpose -> Mul -> Add"),
        rtol=1e-5,
    ),
    Case(
        "group_norm_by_size",
        construct(trained, nn.GroupNorm, _IMAGE, None, group_size=4, use_bias=False, **_DTYPE),
        _IMAGES,
        expect=expect_graph(
            "Transpose -> Reshape -> InstanceNormalization:Bx2x120 -> Reshape -> Transpose -> Mul", match="exact"
        ),
        rtol=1e-5,
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
        "instance_norm",
        construct(trained, nn.InstanceNorm, _IMAGE, **_DTYPE),
        _ANY_SIZE,
        expect=expect_graph("Transpose -> InstanceNormalization -> Transpose", match="exact"),
        rtol=1e-4,
        # The variance of one pixel is nothing but rounding.
        options={"constraints": ("H >= 2", "W >= 2")},
    ),
    Case(
        "weight_norm",
        construct(trained, Normed, _TOKEN, spectral=False, **_DTYPE),
        _TOKENS,
        expect=expect_graph("MatMul -> Add", match="exact"),
    ),
    Case(
        "spectral_norm",
        construct(trained, Normed, _TOKEN, spectral=True, **_DTYPE),
        _TOKENS,
        expect=expect_graph("MatMul -> Add", match="exact"),
    ),
]
