"""Equations on constants are evaluated at export, equal ones once."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax2onnx_core import to_onnx
from jax2onnx_core.lowering import _constant_eval


@pytest.fixture
def evaluated(monkeypatch):
    """The operands of the equations that JAX evaluates."""
    found, by_jax = [], _constant_eval._by_jax

    def noting(eqn, operation, arrays):
        found.append(arrays)
        return by_jax(eqn, operation, arrays)

    monkeypatch.setattr(_constant_eval, "_by_jax", noting)
    return found


def _roots(x, *numbers):
    for number in numbers:
        x = x / lax.sqrt(jnp.asarray(number))
    return x


def test_equal_equations_on_scalars_are_evaluated_once(evaluated):
    program = to_onnx(lambda x: _roots(x, *[np.float32(64)] * 3), [(3,)])
    assert len(evaluated) == 1
    np.testing.assert_array_equal(program(np.full(3, 512, np.float32)), np.ones(3))


@pytest.mark.parametrize(
    "numbers",
    [(np.float32(0.0), np.float32(-0.0)), (np.float32(4), np.float16(4)), (np.float32(4), np.array([4], np.float32))],
)
def test_others_are_evaluated_each(evaluated, numbers):
    to_onnx(lambda x: _roots(x, *numbers), [(3,)])
    assert len(evaluated) == 2


def test_the_same_operands_of_other_parameters_are_evaluated_each(evaluated):
    numbers = jnp.asarray(np.array([3, 1, 2], np.float32))
    to_onnx(lambda x: x + lax.cumsum(numbers) + lax.cumsum(numbers, reverse=True), [(3,)])
    assert len(evaluated) == 2


@pytest.mark.parametrize(
    "constant",
    [
        lambda: jnp.abs(jnp.exp(jnp.asarray(np.array([1 + 2j, 0.5j, -1], np.complex64)))),
        lambda: jax.random.uniform(jax.random.split(jax.random.key(7), 4)[2], (3,)),
        lambda: jax.random.normal(jax.random.fold_in(jax.random.key(7, impl="rbg"), 5), (100, 100))[:3, 0],
    ],
    ids=["complex", "keys", "more than a small array"],
)
def test_constants_of_components_are_evaluated(constant):
    program = to_onnx(lambda x: x * constant(), [(3,)])
    assert [node.op_type for node in program.model.graph] == ["Mul"]
    program.verify()
