"""Cases of `shard_maps`: over eight devices, or over one where there are no more."""

from __future__ import annotations

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax
from jax2onnx_core import Case

__all__ = ["cases"]

_ROWS, _WHOLE = jax.P("i"), jax.P()


def _over_devices(fn: Callable[..., jax.Array], specs: tuple[jax.P, ...], out: jax.P) -> Callable[..., jax.Array]:
    """`fn` over the devices that there are when the case runs."""

    @functools.wraps(fn)
    def over(*operands: jax.Array) -> jax.Array:
        count = 8 if len(jax.devices()) >= 8 else 1
        mesh = jax.make_mesh((count,), ("i",), (jax.sharding.AxisType.Auto,), devices=jax.devices()[:count])
        return jax.shard_map(fn, mesh=mesh, in_specs=specs, out_specs=out, check_vma=False)(*operands)

    return over


def _perceptron(x: jax.Array, up: jax.Array, down: jax.Array) -> jax.Array:
    return lax.psum(jnp.tanh(x @ up) @ down, "i")


def _ring(x: jax.Array) -> jax.Array:
    """A sum of the blocks of all devices, which go round."""
    count = lax.axis_size("i")

    def step(carry: tuple[jax.Array, jax.Array], _: None) -> tuple[tuple[jax.Array, jax.Array], None]:
        total, block = carry
        return (total + jnp.tanh(block), lax.ppermute(block, "i", [(i, (i + 1) % count) for i in range(count)])), None

    return lax.scan(step, (jnp.zeros_like(x), x), None, length=count)[0][0]


cases = [
    Case("over_a_batch", _over_devices(lambda x, w: jnp.tanh(x @ w), (_ROWS, _WHOLE), _ROWS), [("8*B", 3), (3, 5)],
         covers=("shard_map",), expect="MatMul -> Tanh"),
    Case("over_features", _over_devices(_perceptron, (_WHOLE, jax.P(None, "i"), _ROWS), _WHOLE), [("B", 3), (3, 16), (16, 2)],
         expect="MatMul -> Tanh -> MatMul", declines="the mesh has several devices"),
    Case("in_a_ring", _over_devices(_ring, (_ROWS,), _ROWS), [(16, 3)]),
]  # fmt: skip
