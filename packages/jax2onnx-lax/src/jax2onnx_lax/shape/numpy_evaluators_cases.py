"""Cases of `numpy_evaluators`: computations on constants leave nothing in the graph."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax2onnx_core import Case

__all__ = ["cases"]

_one_add = "Add"
_words = np.array([1, 2**31, 2**32 - 1], np.uint32)


def _bits() -> jax.Array:
    x = jnp.asarray(_words)
    return (x << 3) ^ (x >> 5) | ~x & (x * 7 - 1)


def _choices() -> jax.Array:
    x = jnp.asarray(_words).astype(jnp.int32)
    return jnp.where(x < 0, -x, jnp.maximum(x, 3)) + (x == 1) + (x != 2)


cases = [
    Case("bits", lambda x: x + _bits(), [((3,), np.uint32)], ("and", "or", "xor", "not", "shift_left"), _one_add),
    Case("choices", lambda x: x + _choices(), [((3,), np.int32)], ("select_n", "lt", "max", "neg", "eq", "ne"), _one_add),
    Case("bitcast", lambda x: x + lax.bitcast_convert_type(jnp.asarray(_words), jnp.int32), [((3,), np.int32)],
         ("bitcast_convert_type",), _one_add),
]  # fmt: skip
