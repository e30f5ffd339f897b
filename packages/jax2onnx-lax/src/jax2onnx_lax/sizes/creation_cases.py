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


def _fractions(size: float) -> tuple[jax.Array, ...]:
    halves = jnp.arange(0.5, size), jnp.arange(size, 0.5, -0.75), jnp.arange(0, size, 0.25, dtype=jnp.float16)
    return (
        *halves,
        jnp.arange(0.0, 2 * size - 3),
        jnp.arange(0.5, size, dtype=int),
        jnp.arange(3.5, size, np.float32(1.5)),
        jnp.arange(size * 0.25, size / 2 - 1.5, 0.25),
    )


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
    Case("linspace_steps", lambda x: [jnp.linspace(0.0, 1.0, x.shape[0], end, retstep=True) for end in (True, False)], [("B",)],
         covers=("jax.numpy.linspace",)),
    Case("arange", lambda n: (jnp.arange(2, n), jnp.arange(1, 3 * n, 2), jnp.arange(n, 0, -1)), [_N],
         covers=("jax.numpy.arange",)),
    Case("arange_of_fractions", lambda x: _fractions(x.shape[0]), [("B",)], covers=("jax.numpy.arange",)),
    Case("reshape", lambda x, n: (x.reshape(n // 4 + 1, -1), jnp.reshape(x, (-1, n // 4 + 1))), [(12,), _N],
         covers=("jax.numpy.reshape",)),
    Case("repeated", lambda x, n: (jnp.broadcast_to(x, (n, *x.shape)), jnp.tile(x, (n, 2)), jnp.repeat(x, n)), [("B",), _N],
         covers=("jax.numpy.broadcast_to", "jax.numpy.tile", "jax.numpy.repeat")),
    Case("pad", lambda x, n: jnp.pad(x, ((1, n), (0, 0))), [("B", 3), _N], covers=("jax.numpy.pad",)),
    Case("one_hot", lambda x: jax.nn.one_hot(x, jnp.maximum(x.max() % 7, 0) + 1), [_IDS], covers=("jax.nn.one_hot",)),
    Case("top_k", lambda x, n: jax.lax.top_k(x, n), [(7,), _N], covers=("jax.lax.top_k",)),
    Case("segments", _segments, [("B", 3), _IDS],
         covers=("jax.ops.segment_sum", "jax.ops.segment_prod", "jax.ops.segment_max", "jax.ops.segment_min")),
    Case("powers", lambda n: (jnp.logspace(0, 2, n), jnp.geomspace(1.0, 8.0, num=n)), [_N],
         covers=("jax.numpy.logspace", "jax.numpy.geomspace")),
    Case("frequencies", lambda n: (jnp.fft.fftfreq(n), jnp.fft.rfftfreq(n, 0.5)), [_N],
         covers=("jax.numpy.fft.fftfreq", "jax.numpy.fft.rfftfreq")),
    Case("frequencies_symbolic", lambda x: (jnp.fft.fftfreq(x.shape[0]), jnp.fft.rfftfreq(x.shape[0], x[0], dtype=x.dtype)),
         [("B",)], covers=("jax.numpy.fft.rfftfreq",)),
    Case("windows", lambda n: (jnp.bartlett(n), jnp.blackman(n), jnp.hamming(n), jnp.hanning(n), jnp.kaiser(n, beta=3.0)), [_N],
         covers=("jax.numpy.bartlett", "jax.numpy.blackman", "jax.numpy.hamming", "jax.numpy.hanning", "jax.numpy.kaiser")),
    Case("grids", lambda n: (jnp.indices((n, 2)), jnp.mgrid[1:n, 0:2], jnp.diag_indices(n)), [_N],
         covers=("jax.numpy.indices", "jax.numpy.mgrid", "jax.numpy.diag_indices")),
    Case("triangles", lambda n: (jnp.tril_indices(n), jnp.triu_indices(n, 1, m=3)), [_N],
         covers=("jax.numpy.tril_indices", "jax.numpy.triu_indices")),
    Case("sizes_of_lax", lambda x, n: (jax.lax.full((n, 2), 1.0), jax.lax.iota(np.int32, n), jax.lax.slice_in_dim(x, 0, jnp.minimum(n, 7))),
         [(7,), _N], covers=("jax.lax.shape",)),
    Case("reshape_of_lax", lambda x, n: jax.lax.reshape(x, (n // 4 + 1, 12 // (n // 4 + 1))), [(12,), _N],
         covers=("jax.lax.reshape",)),
    Case("drawn", lambda n: (jax.random.choice(jax.random.key(0), n, (4,)), jax.random.permutation(jax.random.key(1), n)), [_N],
         covers=("jax.random.choice", "jax.random.permutation")),
    Case("keys", lambda n: jax.vmap(jax.random.uniform)(jax.random.split(jax.random.key(0), n)), [_N], covers=("jax.random.split",)),
    Case("pad_by_elements", lambda x, n: [jnp.pad(x, (n, 1), m) for m in ("edge", "wrap", "reflect", "symmetric")], [(3,), _N],
         covers=("jax.numpy.pad",)),
    Case("resize", lambda x, n: jax.image.resize(x, (n + 2, n + 1, 3), "bilinear"), [(4, 4, 3), _N],
         covers=("jax.image.resize",)),
]  # fmt: skip
