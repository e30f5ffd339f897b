"""Layers that a user's subclass, or a patch, has changed mean what they mean in JAX."""

from __future__ import annotations

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax2onnx_core import to_onnx


class StdConv(nn.Conv):
    """A convolution whose kernel is standardised, as in vision_transformer and big_vision."""

    def param(self, name, *args, **kwargs):
        value = super().param(name, *args, **kwargs)
        if name == "kernel":
            value = (value - value.mean((0, 1, 2))) / (value.std((0, 1, 2)) + 1e-5)
        return value


class ScaledDense(nn.DenseGeneral):
    """A dense layer whose parameters are scaled."""

    def param(self, name, *args, **kwargs):
        return super().param(name, *args, **kwargs) * 2


class ScaledNorm(nn.LayerNorm):
    """A layer norm whose parameters are shifted."""

    def param(self, name, *args, **kwargs):
        return super().param(name, *args, **kwargs) + 0.5


class PlainDense(nn.DenseGeneral):
    """A dense layer that computes as its base does."""

    def __call__(self, x):
        return nn.relu(super().__call__(x))


class Attention(nn.MultiHeadDotProductAttention):
    """Attention whose queries, keys and values have no bias."""

    def clone(self, **kwargs):
        return super().clone(**kwargs)


class Normalised(nn.Module):
    """A convolution, a norm and a dense layer of subclasses inside of a model."""

    @nn.compact
    def __call__(self, x):
        return ScaledDense(3)(ScaledNorm()(StdConv(4, (3, 3))(x)))


def _export(module, shape):
    x = jax.random.normal(jax.random.key(1), shape)
    bound = module.bind(module.init(jax.random.key(0), x))
    program = to_onnx(bound, [x])
    np.testing.assert_allclose(program(x), bound(x), rtol=1e-4, atol=1e-5)
    return program


@pytest.mark.parametrize(
    ("module", "name", "reason"),
    [
        (ScaledDense(4), "nn.linear", "ScaledDense overrides param, which DenseGeneral.__call__ uses"),
        (ScaledNorm(), "nn.layer_norm", "ScaledNorm overrides param, which LayerNorm.__call__ uses"),
    ],
)
def test_a_subclass_that_changes_parameters_is_traced(module, name, reason):
    program = _export(module, (2, 5, 5, 3))
    assert (name, reason) in program.log.reasons
    assert reason in program.report()


def test_changed_layers_inside_of_a_model_are_traced():
    program = _export(Normalised(), (2, 5, 5, 3))
    assert not {"nn.linear", "nn.layer_norm"} & {name for name, _ in program.log.ways}


def test_a_subclass_that_changes_nothing_is_claimed():
    program = _export(PlainDense(4), (2, 3))
    assert ("nn.linear", "rule") in program.log.ways


def test_a_subclass_of_attention_is_the_attention():
    program = _export(Attention(2), (2, 5, 8))
    assert ("nn.attention", "rule") in program.log.ways


def test_a_patched_helper_of_a_layer_is_traced(monkeypatch):
    original = jax.lax.dot_general
    monkeypatch.setattr(nn.linear.lax, "dot_general", lambda *args, **kwargs: original(*args, **kwargs) * 3)  # type: ignore[attr-defined]
    assert ("nn.linear", "rule") not in _export(nn.DenseGeneral(4), (2, 3)).log.ways


def test_a_patched_module_is_traced(monkeypatch):
    original = nn.Module.param
    monkeypatch.setattr(nn.Module, "param", lambda self, *args, **kwargs: original(self, *args, **kwargs) * 2)
    assert ("nn.linear", "rule") not in _export(nn.DenseGeneral(4), (2, 3)).log.ways


def test_a_layer_of_which_the_call_itself_is_patched_is_traced(monkeypatch):
    original = nn.DenseGeneral.__call__
    monkeypatch.setattr(nn.DenseGeneral, "__call__", lambda self, x: original(self, x) * 2)
    _export(nn.Sequential([nn.DenseGeneral(4)]), (2, 3))


def test_cells_of_a_subclass_are_traced():
    class Cell(nn.GRUCell):
        def __call__(self, carry, x):
            carry, y = super().__call__(carry, x)
            return carry, y * 2

    _export(nn.RNN(Cell(4)), (2, 5, 3))


def test_attention_of_another_function_is_traced(monkeypatch):
    monkeypatch.setattr(jnp, "einsum", lambda *args, **kwargs: _einsum(*args, **kwargs) * 2)
    _export(nn.MultiHeadDotProductAttention(2), (2, 5, 8))


_einsum = jnp.einsum


# -- layers whose mode is an input of the model ------------------------------------------------------


class TwiceAttention(nn.MultiHeadDotProductAttention):
    """Attention whose result is doubled."""

    @nn.compact
    def __call__(self, x, **kwargs):  # type: ignore[override]
        return 2 * super().__call__(x, **kwargs)


class TwiceDropout(nn.Dropout):
    """A dropout whose result is doubled."""

    @nn.compact
    def __call__(self, x, **kwargs):  # type: ignore[override]
        return 2 * super().__call__(x, **kwargs)


class TwiceNorm(nn.BatchNorm):
    """A batch norm whose result is doubled."""

    @nn.compact
    def __call__(self, x, **kwargs):  # type: ignore[override]
        return 2 * super().__call__(x, **kwargs)


@pytest.mark.parametrize("layer", [nn.MultiHeadDotProductAttention, TwiceAttention])
@pytest.mark.parametrize("flag", [True, False])
def test_attention_with_a_flag_computes_what_its_subclass_does_once(layer, flag):
    x = jax.random.normal(jax.random.key(1), (2, 3, 8))
    module = layer(num_heads=2, dropout_rate=0.5)
    variables = module.init(jax.random.key(0), x, deterministic=True)

    def call(x, deterministic):
        return module.apply(variables, x, deterministic=deterministic, rngs={"dropout": jax.random.key(2)})

    program = to_onnx(call, [x, ((), "bool")])
    np.testing.assert_allclose(program(x, np.bool_(flag)), call(x, flag), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("flag", [True, False])
def test_a_dropout_with_a_flag_computes_what_its_subclass_does_once(flag):
    x = jnp.ones((2, 3))

    def call(x, deterministic):
        return TwiceDropout(0.5).apply({}, x, deterministic=deterministic, rngs={"dropout": jax.random.key(2)})

    program = to_onnx(call, [x, ((), "bool")])
    np.testing.assert_allclose(
        program(x, np.bool_(flag)),
        TwiceDropout(0.5).apply({}, x, deterministic=flag, rngs={"dropout": jax.random.key(2)}),
    )


@pytest.mark.parametrize("flag", [True, False])
def test_a_batch_norm_with_a_flag_computes_what_its_subclass_does_once(flag):
    x = jax.random.normal(jax.random.key(1), (5, 3))
    module = TwiceNorm()
    variables = module.init(jax.random.key(0), x, use_running_average=True)

    def call(x, inference):
        return module.apply(variables, x, use_running_average=inference, mutable=["batch_stats"])[0]

    program = to_onnx(call, [x, ((), "bool")])
    np.testing.assert_allclose(program(x, np.bool_(flag)), call(x, flag), rtol=1e-4, atol=1e-5)
