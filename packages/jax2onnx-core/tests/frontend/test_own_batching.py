"""A function with a `vmap` of its own is itself where no `vmap` of the user is, however the steps of a loop are computed."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.custom_batching import custom_vmap, sequential_vmap
from jax2onnx_core import to_onnx

WEIGHT = np.random.default_rng(0).normal(size=(5, 5)).astype(np.float32)


@custom_vmap
def sine(x: jax.Array) -> jax.Array:
    return jnp.sin(x)


@sine.def_vmap
def cosine_of_rows(_size: int, batched: list[bool], x: jax.Array) -> tuple[jax.Array, bool]:
    return jnp.cos(x), batched[0]


LOOPS: dict[str, Callable[[jax.Array], object]] = {
    "steps that are apart": lambda x: lax.map(sine, x),
    "a call in a step": lambda x: lax.map(jax.jit(lambda row: sine(row) * 2), x),
    "a branch of a step": lambda x: lax.map(lambda row: lax.cond(row[0] > 0, sine, jnp.tan, row), x),
    "a product of a step": lambda x: lax.scan(lambda c, row: (c + sine(row) @ WEIGHT, sine(row)), jnp.zeros(5), x),
    "a recurrent layer": lambda x: lax.scan(lambda c, row: (jnp.tanh(sine(row) @ WEIGHT + c), c), jnp.zeros(5), x),
    "a linear recurrence": lambda x: lax.scan(lambda c, row: (c / 2 + sine(row), c), jnp.zeros(5), x),
    "what a loop collects": lambda x: lax.scan(lambda c, row: (c / 2 + row, sine(c)), jnp.zeros(5), x),
    "updates of rows": lambda x: x.at[jnp.array([0, 1])].apply(sine),
    "a vmap of the user": lambda x: (jax.vmap(sine)(x), lax.map(jax.vmap(sine), x)),
}


@pytest.mark.parametrize("name", LOOPS)
@pytest.mark.parametrize("rows", [7, "B"])
def test_a_function_with_its_own_vmap_in(name: str, rows: int | str) -> None:
    x = np.random.default_rng(1).normal(size=(7, 5)).astype(np.float32)
    got = jax.tree.leaves(to_onnx(LOOPS[name], [(rows, 5)])(x))
    for computed, wanted in zip(got, jax.tree.leaves(jax.jit(LOOPS[name])(x)), strict=True):
        np.testing.assert_allclose(computed, wanted, rtol=1e-5, atol=1e-5)


def test_a_vmap_that_is_a_loop_is_exported() -> None:
    program = to_onnx(jax.vmap(sequential_vmap(lambda row: jnp.cumsum(jnp.sin(row)))), [("B", 5)])
    program.verify()
