"""`nnx.avg_pool`, `nnx.max_pool` and `nnx.min_pool` as "nn.avg_pool", "nn.max_pool" and "nn.min_pool"."""

from __future__ import annotations

from collections.abc import Sequence

import jax
from jax2onnx_core import Call, Composites
from jax2onnx_lax.nn.pooling import FlaxPadding, pooling_call

__all__ = ["composites"]

composites = Composites()


@composites.call("flax.nnx:avg_pool", name="nn.avg_pool")
def avg_pool(
    inputs: jax.Array,
    window_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    padding: FlaxPadding = "VALID",
    count_include_pad: bool = True,
) -> Call:
    return pooling_call(inputs, window_shape, strides, padding, count_include_pad=bool(count_include_pad))


@composites.call("flax.nnx:max_pool", name="nn.max_pool")
def max_pool(
    inputs: jax.Array, window_shape: Sequence[int], strides: Sequence[int] | None = None, padding: FlaxPadding = "VALID"
) -> Call:
    return pooling_call(inputs, window_shape, strides, padding)


@composites.call("flax.nnx:min_pool", name="nn.min_pool")
def min_pool(
    inputs: jax.Array, window_shape: Sequence[int], strides: Sequence[int] | None = None, padding: FlaxPadding = "VALID"
) -> Call:
    return pooling_call(inputs, window_shape, strides, padding)
