"""Cases of `dropout`."""

from __future__ import annotations

import flax.linen as nn
import jax
import numpy as np
from jax2onnx_core import Case, construct, expect_graph, with_dtype

from jax2onnx_linen._trained import trained

__all__ = ["cases"]

_FLAG = ((), np.bool_)


def _by_a_flag(x: jax.Array, deterministic: jax.Array) -> jax.Array:
    return nn.Dropout(0.5).apply({}, x, deterministic=deterministic, rngs={"dropout": jax.random.key(0)})


def _of_a_flag(x: jax.Array, deterministic: jax.Array) -> jax.Array:
    # Flax annotates the field as a bool; the layer computes with an array as well.
    layer = nn.Dropout(0.5, deterministic=deterministic)  # type: ignore[arg-type]
    return layer.apply({}, x, rng=jax.random.key(0))


cases = [
    Case(
        "dropout",
        construct(trained, nn.Dropout, (1, 8), 0.5, deterministic=True, dtype=with_dtype()),
        [("B", "T", 8)],
        expect="Identity",
    ),
    Case(
        "dropout_by_a_flag",
        _by_a_flag,
        [("B", 4), _FLAG],
        covers=("linen.dropout",),
        expect=expect_graph(counts={"If": 1}),
    ),
    Case("dropout_of_a_flag", _of_a_flag, [("B", 4), _FLAG], expect=expect_graph(counts={"If": 1})),
]
