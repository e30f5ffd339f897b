"""Cases of `creation`."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax2onnx_core import Case

__all__ = ["cases"]

_N, _IDS = np.asarray(5, np.int32), (("B",), "int32")


def _numbers(n: jax.Array) -> tuple[jax.Array, ...]:
    return jnp.zeros((n, 2)), jnp.ones(n), jnp.full((2, n), 3.0), jnp.empty((n, 0)), jnp.zeros(n) + jnp.arange(n)


def _like(x: jax.Array, n: jax.Array) -> tuple[jax.Array, ...]:
    return jnp.zeros_like(x, shape=(n,)), jnp.ones_like(x, shape=(n,)), jnp.full_like(x, 2, shape=(n,))


def _segments(x: jax.Array, ids: jax.Array) -> list[jax.Array]:
    functions = (jax.ops.segment_sum, jax.ops.segment_prod, jax.ops.segment_max, jax.ops.segment_min)
    return [segment(x, ids, ids.max() % 5 + 1) for segment in functions]


cases = [
    Case("filled", _numbers, [_N],
         covers=("jax.numpy.zeros", "jax.numpy.ones", "jax.numpy.full", "jax.numpy.empty", "jax.numpy.arange")),
    Case("like", _like, [("B",), _N],
         covers=("jax.numpy.zeros_like", "jax.numpy.ones_like", "jax.numpy.full_like")),
    Case("matrices", lambda n: (jnp.eye(n), jnp.identity(n), jnp.tri(n, n + 1)), [_N],
         covers=("jax.numpy.eye", "jax.numpy.identity", "jax.numpy.tri")),
    Case("linspace", lambda n: jnp.linspace(0.0, 1.0, n), [_N], covers=("jax.numpy.linspace",)),
    Case("arange", lambda n: (jnp.arange(2, n), jnp.arange(1, 3 * n, 2), jnp.arange(n, 0, -1)), [_N],
         covers=("jax.numpy.arange",)),
    Case("reshape", lambda x, n: (x.reshape(n // 4 + 1, -1), jnp.reshape(x, (-1, n // 4 + 1))), [(12,), _N],
         covers=("jax.numpy.reshape",)),
    Case("repeated", lambda x, n: (jnp.broadcast_to(x, (n, *x.shape)), jnp.tile(x, (n, 2)), jnp.repeat(x, n)), [("B",), _N],
         covers=("jax.numpy.broadcast_to", "jax.numpy.tile", "jax.numpy.repeat")),
    Case("pad", lambda x, n: jnp.pad(x, ((1, n), (0, 0))), [("B", 3), _N], covers=("jax.numpy.pad",)),
    Case("one_hot", lambda x: jax.nn.one_hot(x, jnp.maximum(x.max() % 7, 0) + 1), [_IDS], covers=("jax.nn.one_hot",)),
    Case("top_k", lambda x, n: jax.lax.top_k(x, n), [(7,), _N], covers=("jax.lax.top_k",)),
    Case("segments", _segments, [("B", 3), _IDS],
         covers=("jax.ops.segment_sum", "jax.ops.segment_prod", "jax.ops.segment_max", "jax.ops.segment_min")),
    Case("resize", lambda x, n: jax.image.resize(x, (n + 2, n + 1, 3), "bilinear"), [(4, 4, 3), _N],
         covers=("jax.image.resize",)),
]  # fmt: skip
