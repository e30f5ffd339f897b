"""Modules that were not put into evaluation mode, and other state that a model cannot keep."""

from __future__ import annotations

import warnings
from typing import Any

import jax
import numpy as np
import pytest
from flax import nnx
from jax2onnx_core import errors, to_onnx

HEAD = "Every call of the model begins with the state at the export, and draws the same random numbers:"
ADVICE = (
    "For inference, put the model into evaluation mode before the export: model.eval(), or what its framework has for it. "
    "State that is to be kept, and keys, can be inputs of the function, and new state a result."
)


class Net(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.norm, self.drop = nnx.BatchNorm(4, rngs=rngs), nnx.Dropout(0.5, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.drop(self.norm(x))


@pytest.fixture
def net() -> Net:
    return Net(nnx.Rngs(0))


def warning_of(fn, inputs) -> str:
    with pytest.warns(errors.ExportWarning) as caught:
        to_onnx(fn, inputs)
    assert caught[0].filename == __file__
    return str(caught[0].message)


def test_layers_in_training_mode_are_named(net):
    assert warning_of(net, [("B", 4)]).splitlines() == [
        HEAD,
        "  norm (BatchNorm) changes norm.mean, norm.var",
        "  drop (Dropout) draws random numbers from the constant key drop.rngs.key",
        ADVICE,
    ]


def test_what_the_warning_proposes(net):
    net.eval()
    with warnings.catch_warnings(action="error"):
        to_onnx(net, [("B", 4)])


class Jitted(Net):
    @nnx.jit
    def __call__(self, x: jax.Array) -> jax.Array:
        return self.norm(x)


def test_a_jitted_method_hands_through_what_it_does_not_change():
    changing, still = Jitted(nnx.Rngs(0)), Jitted(nnx.Rngs(0))
    assert warning_of(changing, [("B", 4)]).splitlines()[1:-1] == ["  norm (BatchNorm) changes norm.mean, norm.var"]
    still.eval()
    with warnings.catch_warnings(action="error"):
        to_onnx(still, [("B", 4)])


def test_many_layers_are_named_in_part():
    layers = nnx.Sequential(*[nnx.Dropout(0.5, rngs=nnx.Rngs(0)) for _ in range(12)])
    lines = warning_of(layers, [(2, 4)]).splitlines()
    assert lines[-2] == "  … and 4 more"
    assert len(lines) == 11


def test_a_cache_that_is_not_returned():
    attention = nnx.MultiHeadAttention(4, 8, decode=True, deterministic=True, rngs=nnx.Rngs(0))
    attention.init_cache((2, 7, 8))
    assert "  MultiHeadAttention changes cache_index, cached_key, cached_value" in warning_of(attention, [(2, 1, 8)])
    with warnings.catch_warnings(action="error"):
        to_onnx(lambda x: (attention(x), nnx.state(attention, nnx.Cache)), [(2, 1, 8)])


def test_statistics_that_are_returned(net):
    net.drop.deterministic = True

    def step(x: jax.Array) -> tuple[jax.Array, nnx.State[Any, Any]]:
        return net(x), nnx.state(net, nnx.BatchStat)

    with warnings.catch_warnings(action="error"):
        to_onnx(step, [(2, 4)])


def test_parameters_that_are_inputs(net):
    net.eval()

    def apply(params: nnx.State[Any, Any], x: jax.Array) -> jax.Array:
        nnx.update(net, params)
        return net(x)

    with warnings.catch_warnings(action="error"):
        to_onnx(apply, [nnx.state(net, nnx.Param), (2, 4)])


def test_keys_for_carries_of_zeros():
    layer = nnx.RNN(nnx.LSTMCell(4, 8, rngs=nnx.Rngs(0)), rngs=nnx.Rngs(1))
    with warnings.catch_warnings(action="error"):
        to_onnx(layer, [(2, 5, 4)])


@pytest.mark.filterwarnings("ignore::jax2onnx_core.plugins.errors.ExportWarning")
def test_verifying_does_not_change_the_model(net):
    before = {path: np.asarray(leaf) for path, leaf in nnx.to_flat_state(nnx.state(net, nnx.Not(nnx.RngKey)))}
    to_onnx(net, [("B", 4)]).verify()
    to_onnx(lambda x: net(x) + 1, [("B", 4)]).verify(inputs=[np.ones((3, 4))])
    after = {path: np.asarray(leaf) for path, leaf in nnx.to_flat_state(nnx.state(net, nnx.Not(nnx.RngKey)))}
    assert before.keys() == after.keys()
    assert all((before[path] == after[path]).all() for path in before)


class Block(nnx.Module):
    def __init__(self) -> None:
        self.rngs = nnx.Rngs(0)
        self.norm = nnx.BatchNorm(4, rngs=self.rngs)
        self.attention = nnx.MultiHeadAttention(2, 4, dropout_rate=0.5, decode=False, rngs=self.rngs)
        self.drop = nnx.Dropout(0.5, rngs=self.rngs)

    def __call__(self, x: jax.Array, deterministic: Any) -> jax.Array:
        x = self.attention(self.norm(x, use_running_average=deterministic), deterministic=deterministic)
        return self.drop(x, deterministic=deterministic)


def test_a_flag_that_is_an_input_selects_when_the_model_runs():
    x = np.random.default_rng(0).standard_normal((3, 5, 4), np.float32)
    with pytest.warns(errors.ExportWarning, match=r"norm \(BatchNorm\) changes norm.mean, norm.var"):
        program = to_onnx(Block(), [("B", "T", 4), ((), "bool")])
    for flag in (True, False):
        np.testing.assert_allclose(program(x, flag), Block()(jax.numpy.asarray(x), flag), rtol=1e-4, atol=1e-5)
    program.verify()


@pytest.mark.parametrize("method", ["eval", "train"])
def test_a_flag_that_is_an_input_goes_before_that_of_the_layer(method):
    drop = nnx.Dropout(0.5, rngs=nnx.Rngs(0))
    getattr(drop, method)()
    with pytest.warns(errors.ExportWarning, match="draws random numbers"):
        program = to_onnx(drop, [(8,)], kwargs={"deterministic": ((), "bool")})
    ones = np.ones(8, np.float32)
    assert program(ones, deterministic=True).tolist() == ones.tolist()
    assert sorted(set(program(ones, deterministic=False).tolist())) == [0, 2]
