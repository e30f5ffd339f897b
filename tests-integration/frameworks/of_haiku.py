"""Layers of Haiku."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import haiku as hk
import jax
import jax.numpy as jnp

__all__ = ["layers"]

Array = jax.Array


def layers() -> dict[str, tuple[Any, list[Any]]]:
    """Kind → transformed function with its parameters and state, and inputs."""
    images, sequences = ("B", 8, 8, 4), ("B", "T", 8)
    return {
        "dense": _transformed(lambda x: hk.Linear(6)(x), ("B", 8)),
        "mlp": _transformed(lambda x: hk.nets.MLP([16, 4])(x), ("B", 8)),
        "conv": _transformed(lambda x: hk.Conv2D(6, 3)(x), images),
        "conv transpose": _transformed(lambda x: hk.Conv2DTranspose(6, 2, 2)(x), images),
        "layer norm": _transformed(lambda x: hk.LayerNorm(-1, True, True)(x), sequences),
        "RMS norm": _transformed(lambda x: hk.RMSNorm(-1)(x), sequences),
        "group norm": _transformed(lambda x: hk.GroupNorm(2)(x), images),
        "batch norm": _transformed(lambda x: hk.BatchNorm(True, True, 0.9)(x, is_training=hk.running_init()), images),
        "embedding": _transformed(lambda x: hk.Embed(10, 8)(x), ("B", "T"), "int32"),
        "attention": _transformed(_attention, sequences),
        "LSTM": _transformed(_lstm, sequences),
        "max pool": (lambda x: hk.max_pool(x, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"), [images]),
    }


def _attention(x: Array) -> Array:
    return hk.MultiHeadAttention(2, 4, w_init=hk.initializers.VarianceScaling())(x, x, x)


def _lstm(x: Array) -> Array:
    core = hk.LSTM(6)
    return hk.dynamic_unroll(core, x, core.initial_state(x.shape[0]), time_major=False)[0]


def _transformed(
    fn: Callable[[Array], Array], dims: tuple[int | str, ...], dtype: str = "float32"
) -> tuple[Any, list[Any]]:
    transformed = hk.without_apply_rng(hk.transform_with_state(fn))
    example = jnp.ones([d if isinstance(d, int) else 3 for d in dims], dtype)
    params, state = transformed.init(jax.random.key(0), example)  # type: ignore[attr-defined]  # Haiku's annotation is a name of its own file
    return (transformed, params, state), [(dims, dtype)]
