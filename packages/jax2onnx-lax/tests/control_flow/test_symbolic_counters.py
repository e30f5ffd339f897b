"""Loops over a symbolic length that combine their counter with the length."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax2onnx_core import to_onnx

_PLACES: dict[str, Callable[[jax.Array, int], jax.Array]] = {
    "from the end": lambda c, n: n - 1 - c,
    "remainder": lambda c, n: (c + 3) % n,
    "quotient": lambda c, n: (c + 3) // n,
    "half": lambda c, n: c // 2 + n // 2,
}


def _fori(place: Callable[[jax.Array, int], jax.Array], x: jax.Array) -> jax.Array:
    n = x.shape[0]
    return lax.fori_loop(0, n, lambda c, state: 0.5 * state + x[place(c, n)], jnp.zeros(3))


def _scan(place: Callable[[jax.Array, int], jax.Array], x: jax.Array) -> jax.Array:
    n = x.shape[0]

    def step(state: jax.Array, c: jax.Array) -> tuple[jax.Array, jax.Array]:
        return 0.5 * state + x[place(c, n)], state

    return lax.scan(step, jnp.zeros(3), jnp.arange(n))[1]


@pytest.mark.parametrize("loop", [_fori, _scan])
@pytest.mark.parametrize("name", _PLACES)
def test_a_place_by_counter_and_length_is_that_of_jax(name, loop):
    to_onnx(lambda x: loop(_PLACES[name], x), [("n", 3)]).verify()
