"""Layers that a user's subclass, or a patch, has changed mean what they mean in JAX."""

from __future__ import annotations

import equinox as eqx
import jax
import numpy as np
import pytest
from jax2onnx_core import to_onnx


def _export(module, shape):
    x = jax.random.normal(jax.random.key(1), shape)
    program = to_onnx(module, [x])
    np.testing.assert_allclose(program(x), module(x), rtol=1e-4, atol=1e-5)
    return program


class ScaledPadding(eqx.nn.Conv2d):
    """A convolution that scales what it pads."""

    def _nonzero_pad(self, x):
        return super()._nonzero_pad(x * 2)


class Projected(eqx.nn.MultiheadAttention):
    """Attention whose projections are doubled."""

    def _project(self, proj, x):
        return super()._project(proj, x) * 2


class PlainLinear(eqx.nn.Linear):
    """A linear layer with a ReLU behind it, which calls its base's method."""

    def __call__(self, x, *, key=None):
        return jax.nn.relu(super().__call__(x, key=key))


def test_a_convolution_that_pads_otherwise_is_traced():
    module = ScaledPadding(3, 4, 3, padding=1, padding_mode="REFLECT", key=jax.random.key(0))  # type: ignore[call-arg, arg-type]
    _export(module, (3, 5, 5))


def test_attention_that_projects_otherwise_is_traced():
    module = Projected(2, 8, key=jax.random.key(0))  # type: ignore[call-arg, arg-type]
    program = _export(lambda x: module(x, x, x), (5, 8))
    assert ("nn.attention", "rule") not in program.log.ways


def test_a_subclass_that_changes_nothing_is_claimed():
    module = PlainLinear(3, 4, key=jax.random.key(0))  # type: ignore[call-arg, arg-type]
    assert ("nn.linear", "rule") in _export(module, (3,)).log.ways


@pytest.mark.parametrize(
    ("module", "name", "shape"),
    [
        (eqx.nn.Conv2d(3, 4, 3, key=jax.random.key(0)), "use_bias", (3, 5, 5)),
        (eqx.nn.ConvTranspose2d(3, 4, 3, key=jax.random.key(0)), "use_bias", (3, 5, 5)),
        (eqx.nn.LayerNorm(4), "use_bias", (4,)),
        (eqx.nn.LayerNorm(4), "use_weight", (4,)),
        (eqx.nn.RMSNorm(4), "use_weight", (4,)),
        (eqx.nn.GroupNorm(2, 4), "channelwise_affine", (4, 3)),
    ],
    ids=str,
)
def test_a_flag_that_was_changed_is_followed(module, name, shape):
    module = jax.tree.map(lambda x: x + 0.5, module)
    object.__setattr__(module, name, False)
    _export(module, shape)


def test_a_pooling_with_another_reducer_is_traced():
    module = eqx.nn.MaxPool2d(2)
    object.__setattr__(module, "operation", jax.lax.min)
    object.__setattr__(module, "init", np.inf)
    assert ("nn.max_pool", "rule") not in _export(module, (3, 5, 5)).log.ways


def test_a_patched_function_of_jax_is_traced(monkeypatch):
    original = jax.lax.rsqrt
    monkeypatch.setattr(jax.lax, "rsqrt", lambda x: original(x) * 2)
    assert ("nn.layer_norm", "rule") not in _export(eqx.nn.LayerNorm(4), (4,)).log.ways


def test_a_layer_is_claimed_again_after_a_patch(monkeypatch):
    with monkeypatch.context() as patch:
        original = jax.lax.rsqrt
        patch.setattr(jax.lax, "rsqrt", lambda x: original(x) * 2)
        _export(eqx.nn.LayerNorm(4), (4,))
    assert ("nn.layer_norm", "rule") in _export(eqx.nn.LayerNorm(4), (4,)).log.ways


# -- layers whose mode is an input of the model, or that have a state ---------------------------------


def _doubled(layer):
    """A subclass of a layer whose result is doubled."""

    def call(self, *args, **kwargs):
        result = layer.__call__(self, *args, **kwargs)
        return (2 * result[0], *result[1:]) if isinstance(result, tuple) else 2 * result

    return type(f"Twice{layer.__name__}", (layer,), {"__call__": call, "__module__": __name__})


@pytest.mark.parametrize("flag", [True, False])
def test_a_dropout_with_a_flag_computes_what_its_subclass_does_once(flag):
    layer, x = _doubled(eqx.nn.Dropout)(0.5), jax.numpy.ones((2, 3))

    def call(x, flag):
        return layer(x, key=jax.random.key(0), inference=flag)

    program = to_onnx(call, [x, ((), "bool")])
    np.testing.assert_allclose(program(x, np.bool_(flag)), call(x, flag))


@pytest.mark.parametrize("flag", [True, False])
def test_a_batch_norm_with_a_flag_computes_what_its_subclass_does_once(flag):
    layer, state = eqx.nn.make_with_state(_doubled(eqx.nn.BatchNorm))(3, axis_name="batch", mode="ema")
    x = jax.random.normal(jax.random.key(0), (4, 3))

    def call(x, flag):
        one = lambda row: layer(row, state, inference=flag)[0]  # noqa: E731
        return jax.vmap(one, axis_name="batch")(x)

    program = to_onnx(call, [x, ((), "bool")])
    np.testing.assert_allclose(program(x, np.bool_(flag)), call(x, np.bool_(flag)), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("layer", "arguments"), [(eqx.nn.LayerNorm, (8,)), (eqx.nn.RMSNorm, (8,)), (eqx.nn.GroupNorm, (2, 8))]
)
def test_a_norm_with_a_state_computes_what_its_subclass_does_once(layer, arguments):
    made = _doubled(layer)(*arguments)
    _export(lambda x: made(x, None)[0], (8,))
