"""Layers that a user's subclass, object or patch has changed mean what they mean in JAX."""

from __future__ import annotations

import jax
import keras
import numpy as np
import pytest
from jax2onnx_core import to_onnx


class StdConv(keras.layers.Conv2D):
    """A convolution whose kernel is standardised."""

    def convolution_op(self, inputs, kernel):
        kernel = (kernel - keras.ops.mean(kernel)) / keras.ops.std(kernel)
        return super().convolution_op(inputs, kernel)


class ScaledGroups(keras.layers.GroupNormalization):
    """A group norm whose groups are doubled."""

    def _apply_normalization(self, *args, **kwargs):
        return super()._apply_normalization(*args, **kwargs) * 2


class ScaledDense(keras.layers.Dense):
    """A dense layer whose kernel is doubled."""

    @property
    def kernel(self):
        return super().kernel * 2


class Softmax(keras.layers.MultiHeadAttention):
    """Attention whose probabilities are doubled."""

    def _masked_softmax(self, *args, **kwargs):
        return super()._masked_softmax(*args, **kwargs) * 2


class PlainGroups(keras.layers.GroupNormalization):
    """A group norm that computes as its base does."""

    def describe(self):
        return f"{self.groups} groups"


def _export(layer, shape, call=None):
    x = jax.random.normal(jax.random.key(1), shape)
    fn = layer if call is None else call
    want = np.asarray(fn(x))
    program = to_onnx(fn, [x])
    np.testing.assert_allclose(program(x), want, rtol=1e-4, atol=1e-5)
    return program


@pytest.mark.parametrize(
    ("layer", "shape"), [(StdConv(4, 3), (2, 5, 5, 4)), (ScaledGroups(2), (2, 5, 5, 4)), (ScaledDense(4), (2, 4))]
)
def test_a_subclass_that_changes_the_computation_equals_jax(layer, shape):
    assert ("nn.group_norm", "rule") not in _export(layer, shape).log.ways


def test_attention_of_another_softmax_equals_jax():
    layer = Softmax(2, 4)
    _export(layer, (2, 5, 8), lambda x: layer(x, x))


def test_a_cell_of_a_subclass_is_traced():
    class Cell(keras.layers.GRUCell):
        def call(self, *args, **kwargs):
            y, states = super().call(*args, **kwargs)
            return y * 2, states

    _export(keras.layers.RNN(Cell(4)), (2, 5, 3))


def test_an_object_with_a_replaced_method_is_traced():
    layer = keras.layers.GroupNormalization(2)
    layer.build((None, 5, 5, 4))
    original = layer._apply_normalization
    layer._apply_normalization = lambda *args: original(*args) * 2
    assert ("nn.group_norm", "rule") not in _export(layer, (2, 5, 5, 4)).log.ways


@pytest.mark.parametrize("layer", [PlainGroups(2), keras.layers.GroupNormalization(2)])
def test_layers_that_change_nothing_are_claimed(layer):
    assert ("nn.group_norm", "rule") in _export(layer, (2, 5, 4)).log.ways
