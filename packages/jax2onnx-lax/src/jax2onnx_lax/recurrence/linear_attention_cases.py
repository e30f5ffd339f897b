"""Cases of `linear_attention`, and of scans that become it or are computed in blocks or chunks of steps."""

from __future__ import annotations

from typing import Literal

import jax
import jax.numpy as jnp
from jax import lax
from jax2onnx_core import Case, expect_graph

__all__ = ["cases"]

_HEADS, _FEATURES = 2, 48
_Result = tuple[jax.Array, jax.Array]


def _gated_delta(q: jax.Array, k: jax.Array, v: jax.Array, g: jax.Array) -> _Result:
    """One gate for the decay and for the strength of the delta rule."""

    def step(s: jax.Array, row: tuple[jax.Array, ...]) -> _Result:
        q, k, v, g = row
        k, g = k / jnp.sqrt((k * k).sum(-1, keepdims=True) + 1), jax.nn.sigmoid(g)
        s = s * g[:, None, None]
        missing = (v - jnp.einsum("hkv,hk->hv", s, k)) * g[:, None]
        s = s + k[:, :, None] * missing[:, None, :]
        return s, jnp.einsum("hkv,hk->hv", s, q)

    return lax.scan(step, jnp.zeros_like(q, shape=(_HEADS, _FEATURES, _FEATURES)), (q, k, v, g))


def _two_keys(q: jax.Array, k: jax.Array, v: jax.Array, g: jax.Array) -> _Result:
    """A state that is written by another key than it is read by, for which there is no kernel."""

    def step(s: jax.Array, row: tuple[jax.Array, ...]) -> _Result:
        q, k, v, g = row
        k = k / jnp.sqrt((k * k).sum(-1, keepdims=True) + 1)
        mixed = jnp.sin(k)[:, :, None] * jnp.einsum("hkv,hk->hv", s, k)[:, None, :]
        s = s * jax.nn.sigmoid(g)[:, None, None] - mixed * 0.1 + k[:, :, None] * v[:, None, :]
        return s, jnp.einsum("hkv,hk->hv", s, q)

    return lax.scan(step, jnp.zeros_like(q, shape=(_HEADS, _FEATURES, _FEATURES)), (q, k, v, g))


def _gated(x: jax.Array, z: jax.Array) -> _Result:
    def step(h: jax.Array, row: tuple[jax.Array, jax.Array]) -> _Result:
        x, z = row[0], jax.nn.sigmoid(row[1])
        h = (1 - z) * h + z * x
        return h, jnp.tanh(h)

    return lax.scan(step, jnp.zeros_like(x[0]), (x, z))


_ROWS = [(40, _HEADS, _FEATURES)] * 3
_SKIP: dict[Literal["f32", "f64"], str] = {"f64": "the kernel computes in float32"}

cases = [
    Case("linear_attention", _gated_delta, [*_ROWS, (40, _HEADS)], covers=("recurrence.linear_attention",), skip=_SKIP,
         expect=expect_graph(counts={"com.microsoft.LinearAttention": 1}, absent=["Scan", "Loop", "If"])),
    Case("recurrence_in_chunks", _two_keys, [*_ROWS, (40, _HEADS)], covers=("scan", "recurrence.sequential"),
         expect=expect_graph(counts={"Scan": 1, "If": 1})),
    Case("recurrence_in_blocks", _gated, [(40, 5), (40, 5)], covers=("scan",),
         expect=expect_graph(counts={"If": 1}, absent=["Scan", "Loop"])),
    Case("recurrence_in_blocks_of_symbolic_length", _gated, [("T", 5), ("T", 5)], covers=("scan",),
         expect=expect_graph("Less -> Or -> If", counts={"If": 1}, absent=["Scan", "Loop"])),
]  # fmt: skip
