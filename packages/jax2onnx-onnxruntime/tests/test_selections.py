"""Selections without branches: the same numbers as Where, and where they stay what they are."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as ir
import pytest
from jax2onnx_core import to_onnx
from jax2onnx_onnxruntime._selections import SelectionsPass

N = 8192
RNG = np.random.default_rng(0)
SPECIAL = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 3e38, -3e38], np.float32)


def _numbers() -> np.ndarray:
    x = RNG.normal(size=N).astype(np.float32)
    x[: len(SPECIAL)], x[-len(SPECIAL) :] = SPECIAL, SPECIAL[::-1]
    return RNG.permutation(x)


FORMS = {
    "of two": lambda x, y: jnp.where(x > y, x, y + 1),
    "of a number, last": lambda x, y: jnp.where(x > 0, y, 0),
    "of a number, first": lambda x, y: jnp.where(x <= y, 0.5, y),
    "of minus zero": lambda x, y: jnp.where(x >= y, -0.0, y),
    "of a negated condition": lambda x, y: jnp.where(~(x > 0) & (y > -1), y, 1),
    "by a number that was selected": lambda x, y: jnp.where(jnp.where(x < y, x < 1, y > 0), x, y),
    "of integers": lambda x, y: jnp.where(x < y, jnp.arange(N, dtype=jnp.int32), 7),
    "of rows": lambda x, y: jnp.where((x > y).reshape(8, -1), x.reshape(8, -1), y.reshape(8, -1)),
}


@pytest.mark.parametrize("name", FORMS)
def test_the_numbers_are_the_same(name):
    function, arguments = FORMS[name], (_numbers(), _numbers())
    program = to_onnx(function, [(N,), (N,)])
    operators = [node.op_type for node in program.model.graph]
    assert "GatherElements" in operators
    found, expected = program(*arguments), jax.jit(function)(*arguments)
    np.testing.assert_array_equal(found.view(np.int32), np.asarray(expected).view(np.int32))


def test_a_symbolic_size_may_be_small():
    program = to_onnx(lambda x, y: jnp.where(x > y, x, 0), [("B", "T", 512), ("B", "T", 512)])
    assert "GatherElements" in [node.op_type for node in program.model.graph]
    program.verify()


def test_finite_numbers_are_multiplied():
    program = to_onnx(lambda x, y: jnp.where(x > y, x, 0), [(N,), (N,)], assume=["finite"])
    assert [node.op_type for node in program.model.graph] == ["Greater", "Cast", "Mul"]


UNCHANGED = {
    "few": (lambda x, y: jnp.where(x[:99] > 0, x[:99], y[:99])),
    "a mask that is an input": (lambda x, y: jnp.where(y.astype(bool), x, 0)),
    "NaN is rare": (lambda x, y: jnp.where(jnp.isnan(x), 0, x)),
    "a broadcast condition": (lambda x, y: jnp.where(x[:, None] > 0, y, 1)),
    "integers": (lambda x, y: jnp.where(jnp.arange(N) > jnp.asarray(y[0], int), x, y)),
}


@pytest.mark.parametrize("name", UNCHANGED)
def test_what_can_be_predicted_stays(name):
    program = to_onnx(UNCHANGED[name], [(N,), (N,)])
    assert "GatherElements" not in [node.op_type for node in program.model.graph]


DECLINED = {
    "the condition is broadcast": lambda x, y: jnp.where((x > y)[:, None], jnp.outer(x, y[:2]), 1),
    "both operands are numbers": lambda x, y: jnp.where(x > y, 2.0, 3.0),
    "an operand is broadcast": lambda x, y: jnp.where(x.reshape(-1, 8) > y.reshape(-1, 8), x[:8], y.reshape(-1, 8)),
}


@pytest.mark.parametrize("reason", DECLINED)
def test_why_others_stay(reason):
    model = ir.from_proto(to_onnx(DECLINED[reason], [(N,), (N,)], target="web").model_proto)
    graph_pass = SelectionsPass()
    graph_pass(model)
    assert [declined.reason for declined in graph_pass.declined] == [reason]
