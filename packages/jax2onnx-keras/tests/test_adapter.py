"""Layers and models as callables, in closures, in methods and in partials: weights keep their paths, state stays theirs."""

from __future__ import annotations

import functools

import jax
import keras
import numpy as np
import pytest
from jax2onnx_core import errors, to_onnx
from keras import layers


class Net(keras.Model):
    """A subclassed model with statistics and a dropout rate."""

    def __init__(self) -> None:
        super().__init__(name="net")
        self.dense = layers.Dense(4, name="dense")
        self.norm = layers.BatchNormalization(name="norm")
        self.drop = layers.Dropout(0.5, name="drop")

    def call(self, x: jax.Array, training: bool | None = None) -> jax.Array:
        return self.drop(self.norm(self.dense(x), training=training), training=training)

    def twice(self, x: jax.Array) -> jax.Array:
        return self(self(x))


@pytest.fixture
def net() -> Net:
    net = Net()
    net(np.ones((2, 4), np.float32))
    return net


def state(layer: keras.Layer) -> dict[str, np.ndarray]:
    return {variable.path: np.asarray(variable) for variable in layer.variables}


def same(before: dict[str, np.ndarray], after: dict[str, np.ndarray]) -> bool:
    return before.keys() == after.keys() and all((before[path] == after[path]).all() for path in before)


WAYS = {
    "model": lambda net: net,
    "method": lambda net: net.twice,
    "closure": lambda net: lambda x: net(x) + 1,
    "partial": lambda net: functools.partial(net, training=False),
    "method of a layer": lambda net: net.dense.call,
    "a layer of the model": lambda net: lambda x: net.layers[0](x),
}


@pytest.mark.parametrize("way", WAYS)
def test_weights_keep_their_paths(net, way):
    fn = WAYS[way](net)
    program = to_onnx(fn, [("B", 4)])
    assert {"net/dense/kernel", "net/dense/bias"} <= set(program.model.graph.initializers)
    x = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
    np.testing.assert_allclose(program(x), fn(x), rtol=1e-5, atol=1e-6)


def test_nodes_carry_the_path_of_their_layer(net):
    names = [node.name for node in to_onnx(net, [("B", 4)]).model.graph]
    assert names[:2] == ["net.dense/MatMul", "net.dense/Add"]


def test_a_model_used_twice_stores_its_weights_once(net):
    once, twice = (to_onnx(fn, [("B", 4)]).model.graph.initializers for fn in (net, net.twice))
    assert len(once) == len(twice)


def test_layers_of_one_path_have_weights_of_their_own():
    first, second = (layers.Dense(3, name="same") for _ in range(2))
    first.build((None, 3))
    second.build((None, 3))
    program = to_onnx(lambda x: second(first(x)), [("B", 3)])
    program.verify()
    assert len(program.model.graph.initializers) == 4


def test_training_is_reported_and_changes_nothing(net):
    before = state(net)
    with pytest.warns(errors.ExportWarning) as caught:
        program = to_onnx(functools.partial(net, training=True), [(5, 4)])
    norm, drop = str(caught[0].message).splitlines()[1:3]
    assert norm == "  net/norm (BatchNormalization) changes net/norm/moving_mean, net/norm/moving_variance"
    assert drop == f"  drop (Dropout) changes {net.drop.seed_generator.state.path}"
    program.verify()
    assert same(before, state(net))


def test_statistics_that_are_returned_are_kept(net):
    def step(x: jax.Array) -> tuple[jax.Array, list[jax.Array]]:
        y = net.norm(x, training=True)
        return y, [net.norm.moving_mean.value, net.norm.moving_variance.value]

    before = state(net)
    program = to_onnx(step, [("B", 4)], constraints=["B >= 2"])
    x = np.random.default_rng(0).standard_normal((6, 4)).astype(np.float32)
    _, mean, _ = jax.tree.leaves(program(x))
    assert same(before, state(net))
    net.norm(x, training=True)
    np.testing.assert_allclose(mean, net.norm.moving_mean, rtol=1e-5)


@pytest.mark.filterwarnings("ignore::jax2onnx_core.plugins.errors.ExportWarning")
def test_states_of_a_stateful_layer_are_not_changed():
    layer = layers.LSTM(3, stateful=True)
    layer(np.ones((2, 5, 4), np.float32))
    before = state(layer)
    program = to_onnx(layer, [(2, 5, 4)])
    program.verify()
    assert same(before, state(layer))


def test_dropout_of_recurrent_layers_draws_nothing_at_inference():
    layer = layers.LSTM(3, dropout=0.5, recurrent_dropout=0.5)
    layer.build((None, None, 4))
    program = to_onnx(layer, [("B", "T", 4)])
    program.verify()
    assert "LSTM" in {node.op_type for node in program.model.graph.all_nodes()}


def test_losses_that_a_call_adds_are_dropped():
    layer = layers.Dense(3, activity_regularizer="l2")
    layer.build((None, 4))
    to_onnx(layer, [("B", 4)]).verify()
    assert not layer.losses


def test_vmap_of_a_layer_is_the_layer_with_one_axis_more():
    layer = layers.Dense(3, activation="relu")
    layer.build((None, 4))
    program = to_onnx(jax.vmap(layer), [("B", "T", 4)])
    assert [node.op_type for node in program.model.graph] == ["MatMul", "Add", "Relu"]
    program.verify()


def test_gradients_of_a_layer():
    layer = layers.LayerNormalization()
    layer.build((None, 4))
    to_onnx(jax.grad(lambda x: (layer(x) ** 3).sum()), [("B", 4)]).verify(rtol=1e-4, atol=1e-5)


def test_mixed_precision():
    layer = layers.Dense(3, dtype="mixed_float16")
    layer.build((None, 4))
    program = to_onnx(layer, [("B", 4)])
    program.verify()
    assert {v.path for v in layer.variables} <= {name.partition(".")[0] for name in program.model.graph.initializers}


# -- what is refused ------------------------------------------------------------------------


def test_a_layer_without_weights():
    with pytest.raises(
        errors.OptionError, match=r"Dense 'first' has no weights yet\. Call it once on an example, or its build"
    ):
        to_onnx(layers.Dense(3, name="first"), [("B", 4)])


def test_a_model_that_was_never_called():
    with pytest.raises(errors.OptionError, match=r"Net 'net' has no weights yet"):
        to_onnx(Net(), [("B", 4)])


def test_a_layer_that_has_no_weights_need_not_be_built():
    to_onnx(layers.UpSampling2D(2), [("B", 3, 4, 2)]).verify()


@pytest.mark.filterwarnings("ignore:`build:UserWarning")
def test_a_part_of_a_model_that_was_never_called():
    class WithHead(Net):
        def __init__(self) -> None:
            super().__init__()
            self.head = layers.Dense(2, name="head")

        def logits(self, x: jax.Array) -> jax.Array:
            return self.head(self(x))

    net = WithHead()
    net(np.ones((2, 4), np.float32))
    with pytest.raises(errors.OptionError, match=r"The export was the first call of head in net"):
        to_onnx(net.logits, [("B", 4)])
    to_onnx(net.logits, [("B", 4)]).verify()


def test_another_backend(monkeypatch):
    monkeypatch.setattr(keras.config, "backend", lambda: "torch")
    with pytest.raises(errors.OptionError, match=r"Keras computes with torch, not with JAX\. Set .* KERAS_BACKEND=jax"):
        to_onnx(layers.Identity(), [(2, 3)])
