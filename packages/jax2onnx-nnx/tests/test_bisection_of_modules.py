"""`program.bisect` of modules: the part of the model in which a value is wrong."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from jax2onnx_core import Rules, errors, hookimpl, to_onnx

rules = Rules(overrides=True)


@rules.lower("tanh")
def wrong_tanh(ctx, x, **_):
    return ctx.op.Sin(x)


class Wrong:
    @hookimpl
    def jax2onnx_register(self, registry):
        registry.add(rules)


class Block(nnx.Module):
    def __init__(self, rngs):
        self.linear = nnx.Linear(4, 4, rngs=rngs)

    def __call__(self, x):
        return jax.jit(lambda y: jnp.tanh(y) * 2)(self.linear(x))


class Blocks(nnx.Module):
    def __init__(self):
        self.first, self.second = Block(nnx.Rngs(0)), Block(nnx.Rngs(1))

    def __call__(self, x):
        return self.second(self.first(x))


def test_a_wrong_rule_within_a_jit_inside_a_module_is_found():
    found = to_onnx(Blocks(), [("B", 4)], plugins=[Wrong()]).bisect(np.ones((2, 4), np.float32))
    assert found.first.source.operation == "tanh"
    assert found.first.source.module == "first"
    assert found[0].source.module == "first.linear"
    assert [value.is_close for value in found] == [True, *(len(found) - 1) * [False]]


def test_a_right_model_differs_nowhere():
    assert to_onnx(Blocks(), [("B", 4)]).bisect().first is None


def test_weights_have_to_be_there():
    program = to_onnx(nnx.eval_shape(Blocks), [("B", 4)], plugins=[Wrong()])
    with pytest.raises(errors.WeightsError, match="cannot be bisected: its weights"):
        program.bisect()
    given = {name: np.ones(of.shape, of.dtype) for name, of in program.weights.items()}
    assert program.with_weights(given).bisect().first.source.operation == "tanh"
