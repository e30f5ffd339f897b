"""Functions with sizes from data, evaluated equation by equation: each value is that of the model, in loops and branches too."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax2onnx_core import to_onnx

X = np.array([[1, -2, 3], [-1, -2, -3], [4, 5, 6], [-1, 2, -3]], np.float32)


def _positive(x: jax.Array) -> jax.Array:
    return x[x > 0].sum()


def _mapped(x: jax.Array) -> jax.Array:
    return lax.map(_positive, x)


def _carried(x: jax.Array, *, reverse: bool = False) -> tuple[jax.Array, jax.Array]:
    return lax.scan(lambda c, row: (2 * c + _positive(row - c), c), jnp.float32(0), x, reverse=reverse)


def _backwards(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    return _carried(x, reverse=True)


def _of_no_rows(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    return lax.scan(lambda c, row: (c + _positive(row), row[0]), jnp.float32(7), x[:0])


def _repeated(x: jax.Array) -> jax.Array:
    least = x.min()
    return lax.while_loop(
        lambda c: c[0] < 3 - least * 0, lambda c: (c[0] + 1, c[1] + _positive(x + c[1] + least)), (0, least)
    )[1]


def _branched(x: jax.Array) -> jax.Array:
    return lax.cond(x[0, 0] > 0, _positive, lambda x: x[x < 0].min(initial=0.0), x)


def _switched(x: jax.Array) -> jax.Array:
    index = x[0, 0].astype(np.int32) + 1
    return lax.switch(index, [_positive, lambda x: _positive(-x), lambda x: x.max()], x)


def _called(x: jax.Array) -> jax.Array:
    return jax.jit(_positive)(x * 2) + jax.jit(_positive)(-x)


def _of_a_size(x: jax.Array) -> jax.Array:
    kept = x[x > 0]
    return jnp.arange(kept.shape[0]) * kept + jnp.ones(kept.shape).sum()


FUNCTIONS = [_mapped, _carried, _backwards, _of_no_rows, _repeated, _branched, _switched, _called, _of_a_size]


@pytest.mark.parametrize("fn", FUNCTIONS)
def test_each_equation_is_that_of_the_model(fn: Callable[..., object]) -> None:
    program = to_onnx(fn, [(4, 3)])
    for x in (X, -X):
        found = program.bisect(x)
        assert found.first is None, str(found)
        assert found.values
