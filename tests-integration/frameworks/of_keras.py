"""Layers of Keras."""

from __future__ import annotations

from typing import Any

import keras
from keras import layers as kl

__all__ = ["layers"]


def layers() -> dict[str, tuple[Any, list[Any]]]:
    """Kind → built layer, and inputs."""
    images, sequences = ("B", 8, 8, 4), ("B", "T", 8)
    return {
        "dense": _built(kl.Dense(6), ("B", 8)),
        "mlp": _built(keras.Sequential([kl.Dense(16, activation="relu"), kl.Dense(4)]), ("B", 8)),
        "conv": _built(kl.Conv2D(6, 3, padding="same"), images),
        "conv transpose": _built(kl.Conv2DTranspose(6, 2, 2), images),
        "layer norm": _built(kl.LayerNormalization(), sequences),
        "RMS norm": _built(kl.RMSNormalization(), sequences),
        "group norm": _built(kl.GroupNormalization(2), images),
        "batch norm": _built(kl.BatchNormalization(), images),
        "embedding": _built(kl.Embedding(10, 8), ("B", "T"), "int32"),
        "attention": _attention(sequences),
        "LSTM": _built(kl.LSTM(6, return_sequences=True), sequences),
        "max pool": _built(kl.MaxPooling2D(2), images),
    }


def _built(layer: keras.Layer, dims: tuple[int | str, ...], dtype: str = "float32") -> tuple[Any, list[Any]]:
    layer.build(_shape(dims))
    return layer, [(dims, dtype)]


def _attention(dims: tuple[int | str, ...]) -> tuple[Any, list[Any]]:
    layer = kl.MultiHeadAttention(2, 4)
    layer.build(_shape(dims), _shape(dims))
    return lambda x: layer(x, x), [dims]


def _shape(dims: tuple[int | str, ...]) -> tuple[int | None, ...]:
    return tuple(d if isinstance(d, int) else None for d in dims)
