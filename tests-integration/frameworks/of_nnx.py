"""Layers of Flax NNX."""

from __future__ import annotations

from typing import Any

from flax import nnx

__all__ = ["layers"]


def layers() -> dict[str, tuple[Any, list[Any]]]:
    """Kind → module and inputs."""
    rngs = nnx.Rngs(0)
    images = [("B", 8, 8, 4)]
    sequences = [("B", "T", 8)]
    return {
        "dense": (nnx.Linear(8, 6, rngs=rngs), [("B", 8)]),
        "mlp": (nnx.Sequential(nnx.Linear(8, 16, rngs=rngs), nnx.relu, nnx.Linear(16, 4, rngs=rngs)), [("B", 8)]),
        "conv": (nnx.Conv(4, 6, (3, 3), rngs=rngs), images),
        "conv transpose": (nnx.ConvTranspose(4, 6, (2, 2), (2, 2), rngs=rngs), images),
        "layer norm": (nnx.LayerNorm(8, rngs=rngs), sequences),
        "RMS norm": (nnx.RMSNorm(8, rngs=rngs), sequences),
        "group norm": (nnx.GroupNorm(4, 2, rngs=rngs), images),
        "batch norm": (nnx.BatchNorm(4, use_running_average=True, rngs=rngs), images),
        "embedding": (nnx.Embed(10, 8, rngs=rngs), [(("B", "T"), "int32")]),
        "attention": (nnx.MultiHeadAttention(2, 8, decode=False, rngs=rngs), sequences),
        "LSTM": (nnx.RNN(nnx.OptimizedLSTMCell(8, 6, rngs=rngs)), sequences),
        "max pool": (lambda x: nnx.max_pool(x, (2, 2), (2, 2)), images),
    }
