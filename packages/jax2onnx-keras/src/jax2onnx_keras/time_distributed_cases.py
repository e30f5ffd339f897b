"""Cases of `time_distributed`."""

from __future__ import annotations

from typing import Any

from jax2onnx_core import Case, expect_graph
from keras import layers

from jax2onnx_keras._built import built

__all__ = ["cases"]


def _dense(dtype: str) -> Any:
    return layers.TimeDistributed(layers.Dense(3, dtype=dtype), dtype=dtype)


def _softmax(dtype: str) -> Any:
    return layers.TimeDistributed(layers.Softmax(axis=0, dtype=dtype), dtype=dtype)


def _conv(dtype: str) -> Any:
    return layers.TimeDistributed(layers.Conv2D(3, 2, dtype=dtype), dtype=dtype)


cases = [
    Case(
        "time_distributed",
        built(_dense, (None, None, 8)),
        [("B", "T", 8)],
        covers=("keras.time_distributed",),
        expect="MatMul -> Add",
    ),
    Case("time_distributed_over_the_batch", built(_softmax, (None, None, 8)), [(4, "T", 8)], expect="Softmax"),
    Case("time_distributed_conv", built(_conv, (None, 3, 5, 4, 2)), [("B", 3, 5, 4, 2)], expect=expect_graph("Conv")),
]
