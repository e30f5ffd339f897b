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
    assert [value.is_close for value in found] == [True, True, *(len(found) - 2) * [False]]


def test_a_right_model_differs_nowhere():
    assert to_onnx(Blocks(), [("B", 4)]).bisect().first is None


def test_weights_have_to_be_there():
    program = to_onnx(nnx.eval_shape(Blocks), [("B", 4)], plugins=[Wrong()])
    with pytest.raises(errors.WeightsError, match="cannot be bisected: its weights"):
        program.bisect()
    given = {name: np.ones(of.shape, of.dtype) for name, of in program.weights.items()}
    assert program.with_weights(given).bisect().first.source.operation == "tanh"


class Convolutions(nnx.Module):
    def __init__(self):
        rngs = nnx.Rngs(0)
        self.first, self.norm = nnx.Conv(3, 4, (3, 3), rngs=rngs), nnx.BatchNorm(4, use_running_average=True, rngs=rngs)
        assert self.norm.scale is not None
        self.norm.mean[...], self.norm.scale[...] = jnp.arange(4.0), jnp.arange(4.0) - 1.5
        self.second = nnx.Conv(4, 4, (3, 3), rngs=rngs)

    def __call__(self, x):
        return nnx.relu(self.second(nnx.relu(self.norm(self.first(x))))).mean((1, 2))


def test_values_are_compared_though_the_model_has_their_channels_first():
    found = to_onnx(Convolutions(), [("B", 8, 8, 3)]).bisect()
    assert [value.source.operation for value in found] == [
        "nn.batch_norm",
        "jax.nn.relu",
        "add",
        "jax.nn.relu",
        "jax.numpy.mean",
    ]
    assert found.first is None
    # The norm is in the weights of the first one.
    assert [source.operation for source in found.absent] == ["conv_general_dilated", "add", "conv_general_dilated"]


def test_a_difference_in_a_value_with_its_channels_first_is_found():
    def scaled(x):
        return jnp.tanh(model.first(x)).mean((1, 2))

    model = Convolutions()
    found = to_onnx(scaled, [("B", 8, 8, 3)], plugins=[Wrong()]).bisect()
    assert [(value.source.operation, value.is_close) for value in found][:2] == [("add", True), ("tanh", False)]
