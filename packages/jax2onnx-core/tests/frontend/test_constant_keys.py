"""The random keys that each call of a model draws from alike: those that its results depend on."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax2onnx_core import _compat
from jax2onnx_core.frontend._constant_keys import constant_keys

KEY, OTHER = jax.random.key(1), jax.random.key(2)
WORDS, NUMBER = jnp.array([3, 4], jnp.uint32), jnp.array(5, jnp.uint32)


def _noise(key: jax.Array) -> jax.Array:
    return jax.random.uniform(key)


def _without(key: jax.Array, x: jax.Array) -> jax.Array:
    return x


def _by_while(key: jax.Array, x: jax.Array) -> jax.Array:
    return lax.while_loop(lambda c: c[1] < 3, lambda c: (c[0], c[1] + _noise(c[0])), (key, x))[1]


#: name → function of a number and an argument that is a key, the arrays that are keys, or become some, for its result.
FUNCTIONS: dict[str, tuple[Callable[[jax.Array, jax.Array], jax.Array], list[jax.Array]]] = {
    "none": (lambda x, k: x + NUMBER, []),
    "an argument": (lambda x, k: x + _noise(k), []),
    "one": (lambda x, k: x + _noise(KEY), [KEY]),
    "two": (lambda x, k: x + _noise(KEY) * _noise(OTHER), [KEY, OTHER]),
    "dead": (lambda x, k: [_noise(KEY), x][1], []),
    "words": (lambda x, k: x + _noise(jax.random.wrap_key_data(WORDS)), [WORDS]),
    "a seed": (lambda x, k: x + _noise(jax.random.key(NUMBER)), [NUMBER]),
    "words beside a number": (lambda x, k: x + NUMBER + _noise(jax.random.wrap_key_data(WORDS)), [WORDS]),
    "a number folded into a key": (lambda x, k: x + _noise(jax.random.fold_in(KEY, NUMBER)), [KEY]),
    "a number folded into an argument": (lambda x, k: x + _noise(jax.random.fold_in(k, NUMBER)), []),
    "jitted": (lambda x, k: x + jax.jit(_noise)(KEY), [KEY]),
    "jitted and not read": (lambda x, k: x + jax.jit(_without)(KEY, x), []),
    "the result itself": (lambda x, k: KEY, [KEY]),
    "scanned": (lambda x, k: lax.scan(lambda c, _: (c, _noise(c)), KEY, None, length=2)[1] + x, [KEY]),
    "one branch": (lambda x, k: lax.cond(x > 0, lambda key, y: _noise(key), _without, KEY, x), [KEY]),
    "no branch": (lambda x, k: lax.cond(x > 0, _without, lambda key, y: -y, KEY, x), []),
    "a loop with two bodies": (lambda x, k: _by_while(KEY, x), [KEY]),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_keys_that_results_depend_on(name: str) -> None:
    function, expected = FUNCTIONS[name]
    traced = _compat.without_dead_equations(jax.make_jaxpr(function)(jnp.ones(()), KEY))
    found = list(constant_keys(traced))
    assert sorted(map(_numbers, found)) == sorted(map(_numbers, expected))


def _numbers(array: object) -> list[int]:
    assert isinstance(array, jax.Array)
    is_key = jnp.issubdtype(array.dtype, jax.dtypes.prng_key)
    return np.ravel(jax.random.key_data(array) if is_key else array).tolist()
