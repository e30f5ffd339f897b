"""Loops and branches over what runtimes have no loop for: 4-bit integers, and complex numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array, lax
from jax2onnx_core import to_onnx

_Program = Callable[[Array], Array | tuple[Array, Array]]

_OF_ANY: Mapping[str, _Program] = {
    "steps of a known number": lambda x: lax.fori_loop(0, 5, lambda i, c: c * x + x, x),
    "steps of a symbolic number": lambda x: lax.fori_loop(0, x.shape[0], lambda i, c: c * c + x[0], x),
    "rows by number": lambda x: lax.fori_loop(0, x.shape[0], lambda i, c: c.at[i].add(c[i - 1] * c[i]), x),
    "sums of rows": lambda x: lax.scan(lambda c, t: (c + t, c), x[0], x),
    "sums of computed rows": lambda x: lax.scan(lambda c, t: (c + t * t, c), x[0], x, reverse=True),
    "products of rows": lambda x: lax.scan(lambda c, t: (c * t + t, t + t), x[0], x),
    "map": lambda x: lax.map(lambda t: t * t + t, x),
    "branch": lambda x: lax.cond(x.real.sum(dtype=jnp.float32) > 0, lambda v: v * v, lambda v: -v, x),
    "one of three branches": lambda x: lax.switch(x.shape[0] % 3, [lambda v: v, lambda v: v + v, lambda v: v * v], x),
}

_OF_INTEGERS: Mapping[str, _Program] = {
    "rows alone": lambda x: lax.scan(lambda c, t: (c + t.astype(jnp.int32), c), jnp.int32(0), x),
    "stacks alone": lambda x: lax.scan(lambda c, t: (c + 1, c.astype(x.dtype)), jnp.int32(0), x.astype(jnp.int32)),
    "condition": lambda x: lax.while_loop(lambda c: (c[0] < _of(x, 5)).all(), lambda c: (c[0] + _of(x, 1),), (x,))[0],
    "conditions of rows": jax.vmap(lambda t: lax.while_loop(lambda c: c < _of(t, 6), lambda c: c + _of(t, 2), t)),
}


def _of(x: Array, number: int) -> Array:
    return jnp.asarray(number).astype(x.dtype)


@pytest.mark.parametrize("dtype", ["int4", "uint4"])
@pytest.mark.parametrize("name", [*_OF_ANY, *_OF_INTEGERS])
def test_4_bit_integers_in_loops_and_branches_are_those_of_jax(name, dtype):
    program = {**_OF_ANY, **_OF_INTEGERS}[name]

    def as_numbers(x: Array) -> list[Array]:
        return [y.astype(jnp.int32) for y in jax.tree.leaves(program(x.astype(dtype)))]

    to_onnx(as_numbers, [(("N",), "int32")]).verify()


@pytest.mark.parametrize("name", _OF_ANY)
def test_complex_numbers_in_loops_and_branches_are_those_of_jax(name):
    program = to_onnx(_OF_ANY[name], [(("N",), "complex64")])
    for size in (1, 2, 5):
        x = (np.linspace(-0.9, 0.8, size) + 0.3j).astype(np.complex64)
        for got, want in zip(*map(jax.tree.leaves, (program(x), _OF_ANY[name](jnp.asarray(x)))), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-5)
