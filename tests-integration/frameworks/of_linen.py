"""Layers of Flax Linen."""

from __future__ import annotations

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

__all__ = ["layers"]


def layers() -> dict[str, tuple[Any, list[Any]]]:
    """Kind → module with its variables, and inputs."""
    images, sequences = ("B", 8, 8, 4), ("B", "T", 8)
    return {
        "dense": _bound(nn.Dense(6), ("B", 8)),
        "mlp": _bound(nn.Sequential([nn.Dense(16), nn.relu, nn.Dense(4)]), ("B", 8)),
        "conv": _bound(nn.Conv(6, (3, 3)), images),
        "conv transpose": _bound(nn.ConvTranspose(6, (2, 2), (2, 2)), images),
        "layer norm": _bound(nn.LayerNorm(), sequences),
        "RMS norm": _bound(nn.RMSNorm(), sequences),
        "group norm": _bound(nn.GroupNorm(2), images),
        "batch norm": _bound(nn.BatchNorm(use_running_average=True), images),
        "embedding": _bound(nn.Embed(10, 8), ("B", "T"), "int32"),
        "attention": _bound(nn.MultiHeadDotProductAttention(2), sequences),
        "LSTM": _bound(nn.RNN(nn.OptimizedLSTMCell(6)), sequences),
        "max pool": (lambda x: nn.max_pool(x, (2, 2), (2, 2)), [images]),
    }


def _bound(module: nn.Module, dims: tuple[int | str, ...], dtype: str = "float32") -> tuple[Any, list[Any]]:
    example = jnp.ones([d if isinstance(d, int) else 3 for d in dims], dtype)
    return (module, module.init(jax.random.key(0), example)), [(dims, dtype)]
