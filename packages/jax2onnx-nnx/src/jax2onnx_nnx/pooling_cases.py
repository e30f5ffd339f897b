"""Cases of `pooling`."""

from __future__ import annotations

import functools

import flax.linen as nn
from flax import nnx
from jax2onnx_core import Case
from jax2onnx_lax.nn.flax_layers import pooling_cases

__all__ = ["cases"]

cases = [
    *pooling_cases(nnx.avg_pool, nnx.max_pool, nnx.min_pool),
    Case(
        "max_pool_of_linen",
        functools.partial(nn.max_pool, window_shape=(2, 2), strides=(2, 2)),
        [("B", 9, 7, 4)],
        expect="Transpose -> MaxPool -> Transpose",
    ),
]
