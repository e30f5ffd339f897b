"""Random bits over symbolic axes, and keys of generators whose words have several axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.extend import random as generators
from jax2onnx_core import to_onnx


def _seed(seed: jax.Array) -> jax.Array:
    return jnp.arange(6, dtype=np.uint32).reshape(2, 3) + seed.astype(np.uint32)


def _split(key: jax.Array, shape: Sequence[int]) -> jax.Array:
    numbers = jnp.arange(np.prod(shape, dtype=int), dtype=np.uint32).reshape(*shape, 1, 1)
    return key * np.uint32(3) + numbers


def _bits(key: jax.Array, bit_width: int, shape: Sequence[int]) -> jax.Array:
    return jnp.broadcast_to(key[0, 1] * np.uint32(5) + key[1, 2], shape)


_GENERATOR = generators.define_prng_impl(
    key_shape=(2, 3),
    seed=_seed,
    split=_split,
    random_bits=_bits,
    fold_in=lambda key, data: key ^ data.astype(np.uint32),
)
_FUNCTIONS: dict[str, Callable[[jax.Array], jax.Array]] = {
    "slice": lambda keys: keys[1:3],
    "index": lambda keys: keys[1],
    "reshape": lambda keys: keys.reshape(2, 2).T,
    "concatenate": lambda keys: jnp.concatenate([keys, keys[::-1]]),
    "where": lambda keys: jnp.where(np.array([True, False, True, False]), keys, keys[::-1]),
    "gather": lambda keys: keys[np.array([2, 1, 1])],
    "set": lambda keys: keys.at[1].set(keys[0]),
    "broadcast": lambda keys: jnp.broadcast_to(keys[0], (3,)),
    "split": lambda keys: jax.vmap(lambda key: jax.random.split(key, 3))(keys),
    "fold_in": lambda keys: jax.random.fold_in(keys[0], 3),
    "scan": lambda keys: lax.scan(lambda last, key: (key, last), keys[0], keys)[1],
    "while": lambda keys: lax.fori_loop(0, 3, lambda i, key: jax.random.fold_in(key, i), keys[0]),
    "constant": lambda keys: jnp.concatenate([keys, jax.random.split(jax.random.key(7, impl=_GENERATOR), 2)]),
}


@pytest.mark.parametrize("name", _FUNCTIONS)
def test_keys_whose_words_have_two_axes(name: str) -> None:
    def function(words: jax.Array) -> jax.Array:
        return jax.random.key_data(_FUNCTIONS[name](jax.random.wrap_key_data(words, impl=_GENERATOR)))

    to_onnx(function, [((4, 2, 3), "uint32")]).verify()


def test_bits_and_comparison_of_such_keys() -> None:
    def function(words: jax.Array) -> tuple[jax.Array, jax.Array]:
        keys = jax.random.wrap_key_data(words, impl=_GENERATOR)
        return jax.vmap(lambda key: jax.random.bits(key, (2,)))(keys), keys == keys[0]

    to_onnx(function, [(("B", 2, 3), "uint32")]).verify()


@pytest.mark.parametrize("shape", [(), (5,), (3, 4), (7, 1, 3)], ids=str)
@pytest.mark.parametrize("algorithm", ["RNG_THREE_FRY", "RNG_PHILOX"])
def test_a_generator_batched_over_a_symbolic_axis(algorithm: str, shape: tuple[int, ...]) -> None:
    def draw(states: jax.Array) -> Sequence[jax.Array]:
        kind = lax.RandomAlgorithm[algorithm]
        return jax.vmap(lambda state: lax.rng_bit_generator(state, shape, np.uint32, kind))(states)

    to_onnx(draw, [(("B", 4), "uint32")]).verify(sizes=[{"B": n} for n in (1, 2, 3, 5, 7, 12)])


def test_bits_of_symbolic_shapes() -> None:
    def draw(state: jax.Array, x: jax.Array) -> Sequence[jax.Array]:
        return lax.rng_bit_generator(state, x.shape, np.uint32, lax.RandomAlgorithm.RNG_THREE_FRY)

    program = to_onnx(draw, [((4,), "uint32"), ("M", "N")])
    program.verify(sizes=[{"M": m, "N": n} for m, n in ((1, 1), (3, 5), (5, 3), (5, 5), (2, 5), (5, 4), (6, 4))])
