"""Cases of `normalization`."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from flax import nnx
from jax.typing import DTypeLike
from jax2onnx_core import Case, construct, expect_graph, with_dtype, with_rngs

__all__ = ["cases"]

_OPTIONS = {"param_dtype": with_dtype(), "rngs": with_rngs(0)}
_TOKENS, _IMAGES = [("B", "T", 8)], [("B", 6, 5, 8)]


def _trained(layer: Callable[..., nnx.Module], *args: object, **options: object) -> nnx.Module:
    """A layer whose parameters and statistics are not those of initialisation."""
    made = layer(*args, **options)
    keys = iter(jax.random.split(jax.random.key(7), 8))
    for variable in jax.tree.leaves(nnx.state(made), is_leaf=lambda v: isinstance(v, nnx.Variable)):
        old = variable[...]
        variable[...] = jax.random.uniform(next(keys), old.shape, old.dtype, 0.5, 2.0)
    return made


class ConvNorm(nnx.Module):
    """A convolution and its batch norm, at inference."""

    def __init__(self, *, param_dtype: DTypeLike, rngs: nnx.Rngs) -> None:
        self.conv = nnx.Conv(4, 6, (3, 3), use_bias=False, param_dtype=param_dtype, rngs=rngs)
        self.norm = _trained(nnx.BatchNorm, 6, use_running_average=True, param_dtype=param_dtype, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        return nnx.relu(self.norm(self.conv(x)))


def _masked_layer_norm(*, param_dtype: DTypeLike, rngs: nnx.Rngs) -> Callable[[jax.Array], jax.Array]:
    norm = nnx.LayerNorm(8, param_dtype=param_dtype, rngs=rngs)
    return lambda x: norm(x, mask=jnp.arange(8) < 5)


_LAYER_NORM = expect_graph("LayerNormalization", match="exact")
# The factor of a layer whose statistics are computed by operators of their own.
_FACTOR = "Add -> Sqrt -> Reciprocal"
_GROUP_NORM = expect_graph("Transpose -> Reshape -> InstanceNormalization -> Reshape -> Transpose -> Mul -> Add")

cases = [
    Case(
        "layer_norm",
        construct(_trained, nnx.LayerNorm, 8, **_OPTIONS),
        _TOKENS,
        covers=("nn.layer_norm",),
        expect=_LAYER_NORM,
        rtol=1e-5,
    ),
    Case(
        "layer_norm_without_scale",
        construct(nnx.LayerNorm, 8, use_scale=False, **_OPTIONS),
        _TOKENS,
        expect=_LAYER_NORM,
    ),
    Case(
        "layer_norm_bare",
        construct(nnx.LayerNorm, 8, use_scale=False, use_bias=False, **_OPTIONS),
        _TOKENS,
        expect=_LAYER_NORM,
        rtol=1e-5,
    ),
    Case(
        "layer_norm_slow_variance",
        construct(nnx.LayerNorm, 8, use_fast_variance=False, **_OPTIONS),
        _TOKENS,
        expect=_LAYER_NORM,
    ),
    Case(
        "layer_norm_over_two_axes",
        construct(nnx.LayerNorm, 8, reduction_axes=(-2, -1), **_OPTIONS),
        _TOKENS,
        expect=expect_graph(
            "ReduceMean:B -> Mul -> Sub -> Relu", f"{_FACTOR} -> Mul -> Mul -> Add", counts={"ReduceMean": 2}
        ),
    ),
    Case(
        "layer_norm_masked",
        construct(_masked_layer_norm, **_OPTIONS),
        _TOKENS,
        expect=expect_graph(
            "Where:BxTx8 -> ReduceSum:BxT -> Div",
            f"{_FACTOR} -> Mul -> Mul -> Add",
            counts={"Where": 2, "ReduceSum": 3},
        ),
    ),
    Case(
        "rms_norm",
        construct(_trained, nnx.RMSNorm, 8, **_OPTIONS),
        _TOKENS,
        covers=("nn.rms_norm",),
        expect=expect_graph("RMSNormalization", match="exact"),
        rtol=1e-5,
    ),
    Case(
        "rms_norm_opset_18",
        construct(_trained, nnx.RMSNorm, 8, **_OPTIONS),
        _TOKENS,
        expect=expect_graph("Pow -> ReduceMean:BxTx1 -> Add -> Sqrt -> Div -> Mul", match="exact"),
        options={"opset": 18},
    ),
    Case(
        "batch_norm",
        construct(_trained, nnx.BatchNorm, 8, use_running_average=True, **_OPTIONS),
        _IMAGES,
        covers=("nn.batch_norm",),
        expect=expect_graph("Mul -> Add", match="exact"),
    ),
    Case(
        "batch_norm_channels_first",
        construct(_trained, nnx.BatchNorm, 6, use_running_average=True, axis=1, **_OPTIONS),
        _IMAGES,
        expect=expect_graph("Mul -> Add", match="exact"),
    ),
    Case(
        "batch_norm_bare",
        construct(nnx.BatchNorm, 8, use_running_average=True, use_scale=False, use_bias=False, **_OPTIONS),
        _IMAGES,
        expect=expect_graph("Mul -> Add", match="exact"),
    ),
    Case(
        "batch_norm_in_training",
        construct(nnx.BatchNorm, 8, **_OPTIONS),
        [(5, 8)],
        expect=expect_graph("ReduceMean:8 -> Mul -> Sub -> Relu", f"{_FACTOR} -> Mul -> Add", counts={"ReduceMean": 2}),
    ),
    Case(
        "batch_norm_goes_into_the_convolution",
        construct(ConvNorm, **_OPTIONS),
        [("B", 6, 5, 4)],
        expect=expect_graph("Transpose -> Conv -> Transpose -> Relu", match="exact"),
    ),
    Case(
        "group_norm",
        construct(_trained, nnx.GroupNorm, 8, 2, **_OPTIONS),
        [("B", "H", "W", 8)],
        covers=("nn.group_norm",),
        expect=_GROUP_NORM,
        rtol=1e-5,
    ),
    Case(
        "group_norm_of_vectors",
        construct(nnx.GroupNorm, 8, 2, **_OPTIONS),
        [("B", 8)],
        expect=expect_graph("Reshape -> InstanceNormalization:Bx2x4 -> Reshape -> Add", match="exact"),
        rtol=1e-4,
    ),
    Case(
        "group_norm_by_size",
        construct(nnx.GroupNorm, 8, None, group_size=4, **_OPTIONS),
        _IMAGES,
        expect=expect_graph(
            "Transpose -> Reshape -> InstanceNormalization:Bx2x120 -> Reshape -> Transpose -> Add", match="exact"
        ),
        rtol=1e-5,
    ),
    Case(
        "instance_norm",
        construct(_trained, nnx.InstanceNorm, 8, **_OPTIONS),
        [("B", "H", "W", 8)],
        expect=expect_graph("Transpose -> InstanceNormalization -> Transpose", match="exact"),
        rtol=1e-4,
        # The variance of one pixel is nothing but rounding.
        options={"constraints": ("H >= 2", "W >= 2")},
    ),
]
