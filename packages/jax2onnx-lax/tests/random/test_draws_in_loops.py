"""Random numbers that are drawn in loops are those of JAX."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import pytest
from jax import lax, random
from jax2onnx_core import to_onnx

Draw = Callable[[jax.Array], jax.Array]
_STEPS = 5
_DRAWS: dict[str, Draw] = {
    "uniform": lambda key: random.uniform(key, (3,)),
    "normal": lambda key: random.normal(key, (3,)),
    "bernoulli": lambda key: random.bernoulli(key, 0.4, (3,)),
    "categorical": lambda key: random.categorical(key, jnp.arange(4.0)),
    "permutation": lambda key: random.permutation(key, 6),
    "choice": lambda key: random.choice(key, 7, (2,)),
    "gumbel": lambda key: random.gumbel(key, (3,)),
    "randint": lambda key: random.randint(key, (3,), 0, 9),
    "exponential": lambda key: random.exponential(key, (3,)),
    "truncated_normal": lambda key: random.truncated_normal(key, -1.0, 1.0, (3,)),
    "bits": lambda key: random.bits(key, (3,)),
    "split": lambda key: random.key_data(random.split(key, 2)),
    "fold_in": lambda key: random.key_data(random.fold_in(key, 7)),
}


def _in_carry(key: jax.Array, draw: Draw) -> Sequence[jax.Array]:
    def step(key: jax.Array, _: None) -> tuple[jax.Array, jax.Array]:
        key, own = random.split(key)
        return key, draw(own)

    last, rows = lax.scan(step, key, None, length=_STEPS)
    return random.key_data(last), rows


def _fori(key: jax.Array, draw: Draw) -> jax.Array:
    start = jnp.zeros_like(draw(key), jnp.float32)
    return lax.fori_loop(0, _STEPS, lambda i, total: 0.5 * total + draw(random.fold_in(key, i)), start)


def _while(key: jax.Array, draw: Draw) -> jax.Array:
    def body(state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        return state[0] + 1, draw(random.fold_in(key, state[0]))

    return lax.while_loop(lambda state: state[0] < _STEPS, body, (jnp.asarray(0), draw(key)))[1]


_LOOPS: dict[str, Callable[[jax.Array, Draw], object]] = {
    "key in the carry": _in_carry,
    "fori_loop": _fori,
    "while_loop": _while,
    "map over keys": lambda key, draw: lax.map(draw, random.split(key, _STEPS)),
    "cond": lambda key, draw: lax.cond(random.key_data(key)[0] > 3, draw, lambda k: draw(random.fold_in(k, 1)), key),
}


@pytest.mark.parametrize("loop", _LOOPS)
@pytest.mark.parametrize("draw", _DRAWS)
def test_draws_in_control_flow_are_those_of_jax(draw: str, loop: str) -> None:
    def function(words: jax.Array) -> object:
        return _LOOPS[loop](random.wrap_key_data(words), _DRAWS[draw])

    to_onnx(function, [((2,), "uint32")]).verify()


@pytest.mark.parametrize("implementation", ["rbg", "unsafe_rbg"])
@pytest.mark.parametrize("loop", ["key in the carry", "fori_loop", "map over keys"])
def test_other_generators_draw_step_by_step(implementation: str, loop: str) -> None:
    def function(words: jax.Array) -> object:
        return _LOOPS[loop](random.wrap_key_data(words, impl=implementation), _DRAWS["uniform"])

    to_onnx(function, [((4,), "uint32")]).verify()
