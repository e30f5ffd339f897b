"""Cases of `normalization`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jax2onnx_core import Case, construct, with_dtype

from jax2onnx_equinox._mapped import mapped

__all__ = ["cases"]

_TYPE = {"dtype": with_dtype()}
_TOKENS, _IMAGES = [("B", "T", 8)], [("B", 6, 5, 4)]


def _norm(kind: Any, *arguments: Any, maps: int = 1, **options: Any) -> Callable[[jax.Array], jax.Array]:
    """A normalisation with weights that are neither 1 nor 0."""
    layer = kind(*arguments, **options)
    leaves, tree = jax.tree.flatten(layer)
    keys = jax.random.split(jax.random.key(0), len(leaves)) if leaves else []
    leaves = [jax.random.uniform(key, x.shape, x.dtype, 0.5, 2) for key, x in zip(keys, leaves, strict=True)]
    return mapped(jax.tree.unflatten(tree, leaves), maps)


def _batch_norm(*, mode: Literal["ema", "batch"], dtype: Any, **options: Any) -> Callable[[jax.Array], jax.Array]:
    layer, state = eqx.nn.make_with_state(eqx.nn.BatchNorm)(6, "batch", mode=mode, dtype=dtype, **options)
    mean, variance = (jax.random.uniform(jax.random.key(i), (6,), dtype, 0.5, 2) for i in range(2))
    index = layer.batch_state_index if layer.ema_state_index is None else layer.ema_state_index
    assert index is not None
    state = state.set(index, (mean, variance))
    if layer.batch_counter is not None:
        state = state.set(layer.batch_counter, jnp.array(3))
    layer = eqx.nn.inference_mode(layer)
    run = jax.vmap(layer, in_axes=(0, None), out_axes=(0, None), axis_name="batch")
    return lambda x: run(x, state)[0]


_RMS = "RMSNormalization -> Add"
_LAYER = "LayerNormalization"
_SCALED = "Mul -> Add"
_COVERS = ("nn.layer_norm", "nn.rms_norm", "nn.group_norm")

_close = functools.partial(Case, rtol=1e-5)

cases = [
    _close(
        "layer_norm", construct(_norm, eqx.nn.LayerNorm, 8, maps=2, **_TYPE), _TOKENS, covers=_COVERS[:1], expect=_LAYER
    ),
    _close(
        "layer_norm_of_two_axes",
        construct(_norm, eqx.nn.LayerNorm, (3, 4), use_bias=False, **_TYPE),
        [("B", 3, 4)],
        expect=_LAYER,
    ),
    _close("rms_norm", construct(_norm, eqx.nn.RMSNorm, 8, maps=2, **_TYPE), _TOKENS, covers=_COVERS[1:2], expect=_RMS),
    _close(
        "rms_norm_without_weights",
        construct(_norm, eqx.nn.RMSNorm, (3, 4), use_weight=False, use_bias=False, **_TYPE),
        [("B", 3, 4)],
        expect="RMSNormalization",
    ),
    _close(
        "group_norm",
        construct(_norm, eqx.nn.GroupNorm, 2, 6, **_TYPE),
        _IMAGES,
        covers=_COVERS[2:],
        expect="Reshape -> InstanceNormalization -> Reshape -> Mul -> Add",
    ),
    _close(
        "group_norm_mapped_twice",
        construct(_norm, eqx.nn.GroupNorm, 2, 6, maps=2, **_TYPE),
        [(2, 3, 6, 5, 4)],
        expect="Reshape -> InstanceNormalization:6x2x60 -> Reshape -> Mul -> Add",
    ),
    Case(
        "instance_norm",
        construct(_norm, eqx.nn.GroupNorm, 6, 6, **_TYPE),
        [("B", 6, "H", "W")],
        expect="InstanceNormalization",
        rtol=1e-4,
    ),
    Case(
        "batch_norm", construct(_batch_norm, mode="batch", **_TYPE), _IMAGES, covers=("nn.batch_norm",), expect=_SCALED
    ),
    Case("batch_norm_of_moving_averages", construct(_batch_norm, mode="ema", **_TYPE), [("B", 6)], expect=_SCALED),
    Case(
        "batch_norm_without_weights",
        construct(_batch_norm, mode="batch", channelwise_affine=False, **_TYPE),
        _IMAGES,
        expect=_SCALED,
    ),
]
