"""Layers of Equinox, which take one example each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

__all__ = ["layers"]

Array = jax.Array


def layers() -> dict[str, tuple[Any, list[Any]]]:
    """Kind → function of a batch, and inputs."""
    key = jax.random.key(0)
    images = [("B", 4, 8, 8)]
    sequences = [("B", "T", 8)]
    attention = eqx.nn.MultiheadAttention(
        2, 8, use_query_bias=True, use_key_bias=True, use_value_bias=True, use_output_bias=True, key=key
    )
    norm, state = eqx.nn.make_with_state(eqx.nn.BatchNorm)(4, "batch", mode="batch", inference=True)
    return {
        "dense": (jax.vmap(eqx.nn.Linear(8, 6, key=key)), [("B", 8)]),
        "mlp": (jax.vmap(eqx.nn.MLP(8, 4, 16, 1, key=key)), [("B", 8)]),
        "conv": (jax.vmap(eqx.nn.Conv2d(4, 6, 3, padding="SAME", key=key)), images),
        "conv transpose": (jax.vmap(eqx.nn.ConvTranspose2d(4, 6, 2, 2, key=key)), images),
        "layer norm": (_of_steps(eqx.nn.LayerNorm(8)), sequences),
        "RMS norm": (_of_steps(eqx.nn.RMSNorm(8, use_bias=False)), sequences),
        "group norm": (jax.vmap(eqx.nn.GroupNorm(2, 4)), images),
        "batch norm": (lambda x: jax.vmap(norm, axis_name="batch", in_axes=(0, None), out_axes=(0, None))(x, state)[0], images),
        "embedding": (_of_steps(eqx.nn.Embedding(10, 8, key=key)), [(("B", "T"), "int32")]),
        "attention": (lambda x: jax.vmap(attention)(x, x, x), sequences),
        "LSTM": (jax.vmap(_scanned(eqx.nn.LSTMCell(8, 6, key=key))), sequences),
        "max pool": (jax.vmap(eqx.nn.MaxPool2d(2, 2)), images),
    }  # fmt: skip


def _of_steps(layer: Callable[[Array], Array]) -> Callable[[Array], Array]:
    return jax.vmap(jax.vmap(layer))


def _scanned(cell: eqx.nn.LSTMCell) -> Callable[[Array], Array]:
    def run(xs: Array) -> Array:
        def step(state: tuple[Array, Array], x: Array) -> tuple[tuple[Array, Array], Array]:
            state = cell(x, state)
            return state, state[0]

        start = jnp.zeros(cell.hidden_size, xs.dtype)
        return jax.lax.scan(step, (start, start), xs)[1]

    return run
