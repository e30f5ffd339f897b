"""Modules that were not put into evaluation mode, and other state that a model cannot keep."""

from __future__ import annotations

import warnings

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

    def step(x: jax.Array) -> tuple[jax.Array, nnx.State]:
        return net(x), nnx.state(net, nnx.BatchStat)

    with warnings.catch_warnings(action="error"):
        to_onnx(step, [(2, 4)])


def test_parameters_that_are_inputs(net):
    net.eval()

    def apply(params: nnx.State, x: jax.Array) -> jax.Array:
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
