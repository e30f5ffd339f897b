"""Flax's poolings, which NNX and Linen share, as "nn.avg_pool", "nn.max_pool" and "nn.min_pool"."""

from __future__ import annotations

from collections.abc import Sequence

import jax
from jax2onnx_core import Call, Composites
from jax2onnx_lax.nn.operands import per_axis
from jax2onnx_lax.padding import canonical_padding

__all__ = ["composites"]

composites = Composites()

# Flax's `padding`: "SAME", "VALID" or pairs.
_Padding = str | Sequence[tuple[int, int]]


@composites.call("flax.nnx:avg_pool", "flax.linen:avg_pool", name="nn.avg_pool")
def avg_pool(
    inputs: jax.Array,
    window_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    padding: _Padding = "VALID",
    count_include_pad: bool = True,
) -> Call:
    return _pooling(inputs, window_shape, strides, padding, count_include_pad=bool(count_include_pad))


@composites.call("flax.nnx:max_pool", "flax.linen:max_pool", name="nn.max_pool")
def max_pool(
    inputs: jax.Array, window_shape: Sequence[int], strides: Sequence[int] | None = None, padding: _Padding = "VALID"
) -> Call:
    return _pooling(inputs, window_shape, strides, padding)


@composites.call("flax.nnx:min_pool", "flax.linen.pooling:min_pool", name="nn.min_pool")
def min_pool(
    inputs: jax.Array, window_shape: Sequence[int], strides: Sequence[int] | None = None, padding: _Padding = "VALID"
) -> Call:
    return _pooling(inputs, window_shape, strides, padding)


def _pooling(
    inputs: jax.Array,
    window_shape: Sequence[int],
    strides: Sequence[int] | None,
    padding: _Padding,
    **options: bool,
) -> Call:
    rank = len(window_shape)
    return Call(
        inputs,
        window=tuple(window_shape),
        strides=per_axis(strides, rank),
        padding=canonical_padding(padding, rank),
        **options,
    )
