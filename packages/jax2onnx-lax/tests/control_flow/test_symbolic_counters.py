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


def _reversed(place: Callable[[jax.Array, int], jax.Array], x: jax.Array) -> jax.Array:
    def step(state: tuple[jax.Array, jax.Array], row: jax.Array) -> tuple[tuple[jax.Array, jax.Array], jax.Array]:
        c, total = state
        return (c + 1, 0.5 * total + x[place(c, x.shape[0])] * row), total

    return lax.scan(step, (0, jnp.zeros(3)), x, reverse=True)[1]


def _mapped(place: Callable[[jax.Array, int], jax.Array], x: jax.Array) -> jax.Array:
    return lax.map(lambda c: x[place(c, x.shape[0])] * c, jnp.arange(x.shape[0]))


def _chosen(place: Callable[[jax.Array, int], jax.Array], x: jax.Array) -> jax.Array:
    n = x.shape[0]

    def step(c: jax.Array, state: jax.Array) -> jax.Array:
        return lax.cond(c % 2 == 0, lambda: state + x[place(c, n)], lambda: 0.5 * state - x[n - 1 - c])

    return lax.fori_loop(0, n, step, jnp.zeros(3))


def _written(place: Callable[[jax.Array, int], jax.Array], x: jax.Array) -> jax.Array:
    n = x.shape[0]
    return lax.fori_loop(0, n, lambda c, rows: rows.at[place(c, n)].set(x[c % n] * c), jnp.zeros_like(x))


@pytest.mark.parametrize("loop", [_reversed, _mapped, _chosen, _written])
@pytest.mark.parametrize("name", _PLACES)
def test_in_every_kind_of_loop(name, loop):
    to_onnx(lambda x: loop(_PLACES[name], x), [("n", 3)]).verify()


@pytest.mark.parametrize("name", ["from the end", "remainder"])
def test_a_place_that_is_always_in_range_is_not_clipped(name):
    program = to_onnx(lambda x: _chosen(_PLACES[name], x), [("n", 3)])
    graphs = [program.model.graph, *program.model.graph.subgraphs()]
    assert not [node for graph in graphs for node in graph if node.op_type == "Clip"]


def test_the_row_from_the_end_is_a_row_of_a_reversed_scan():
    program = to_onnx(lambda x: _written(_PLACES["from the end"], x), [("n", 3)])
    program.verify()
    assert not [node for node in program.model.graph if node.op_type == "Loop"]


def test_draws_by_a_key_of_the_body_are_those_of_jax():
    def draw(x: jax.Array) -> jax.Array:
        def step(state: tuple[jax.Array, jax.Array], row: jax.Array) -> tuple[tuple[jax.Array, jax.Array], jax.Array]:
            key, c = state
            key, own = jax.random.split(jax.random.fold_in(key, c))
            return (key, c + 1), row + x[jax.random.randint(own, (), 0, x.shape[0])]

        return lax.scan(step, (jax.random.key(1), 0), x)[1]

    to_onnx(draw, [("n", 3)]).verify()
