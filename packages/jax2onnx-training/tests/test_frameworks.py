"""Models of each framework, with batch norm, and dropout where the framework keeps its random numbers, trained as in JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import flax.linen as nn
import haiku as hk
import jax
import jax.numpy as jnp
import keras
import numpy as np
import optax
import pytest
from jax2onnx_graph.errors import OptionError
from jax2onnx_training import Training, to_training

RNG = np.random.default_rng(0)
STEPS: list[Any] = [
    (RNG.normal(size=(8, 6)).astype(np.float32), RNG.integers(0, 3, 8).astype(np.int32)) for _ in range(3)
]
BATCH = [("batch", 6), (("batch",), "int32")]
OPTIMIZER = optax.adam(1e-2)
KEY = jax.random.key(7)


def cross_entropy(logits: jax.Array, labels: jax.Array) -> jax.Array:
    return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()


def expected(loss: Callable[..., Any], params: Any, state: Any) -> tuple[list[jax.Array], Any, Any]:
    """The losses, parameters and variables of steps in JAX, of a loss (params, state, key, x, labels) → (loss, state)."""
    moments, key, losses = OPTIMIZER.init(params), KEY, []
    step = jax.jit(jax.value_and_grad(loss, has_aux=True))
    for batch in STEPS:
        key, drawn = jax.random.split(key)
        (value, state), gradients = step(params, state, drawn, *batch)
        updates, moments = OPTIMIZER.update(gradients, moments, params)
        params = optax.apply_updates(params, updates)
        losses.append(value)
    return losses, params, state


def assert_close(one: Any, other: Any) -> None:
    assert jax.tree.structure(one) == jax.tree.structure(other)
    for a, b in zip(*(jax.tree.leaves(eqx.filter(tree, eqx.is_array)) for tree in (one, other)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def check(training: Training, loss: Callable[..., Any], params: Any, state: Any, whole: Callable[..., Any]) -> None:
    session = training.session()
    found = [session.step(*batch)["loss"] for batch in STEPS]
    losses, params, state = expected(loss, params, state)
    np.testing.assert_allclose(found, losses, rtol=1e-5)
    assert_close(training.weights(session), whole(params, state))


# -- Linen ---------------------------------------------------------------------------------------


class OfLinen(nn.Module):
    @nn.compact
    def __call__(self, x: jax.Array, train: bool = True) -> jax.Array:
        x = nn.relu(nn.BatchNorm(use_running_average=not train)(nn.Dense(8, use_bias=False)(x)))
        return nn.Dense(3)(nn.Dropout(0.25, deterministic=not train)(x))


LINEN = OfLinen()


@pytest.fixture(scope="module")
def variables() -> Any:
    return LINEN.init({"params": jax.random.key(0), "dropout": jax.random.key(1)}, STEPS[0][0])


def loss_of_linen(model: Any, x: jax.Array, labels: jax.Array, key: jax.Array) -> jax.Array:
    return cross_entropy(model(x, rngs={"dropout": key}), labels)


def test_linen(variables):
    def loss(params: Any, state: Any, key: jax.Array, x: jax.Array, labels: jax.Array) -> Any:
        logits, state = LINEN.apply({"params": params, **state}, x, rngs={"dropout": key}, mutable=["batch_stats"])
        return cross_entropy(logits, labels), state

    training = to_training(
        (LINEN, variables), loss_of_linen, OPTIMIZER, BATCH, key=KEY, infer=lambda model, x: model(x, train=False)
    )
    state = {"batch_stats": variables["batch_stats"]}
    check(training, loss, variables["params"], state, lambda params, state: {"params": params, **state})
    session = training.session()
    session.step(*STEPS[0])
    logits = LINEN.apply(training.weights(session), STEPS[0][0], train=False)
    np.testing.assert_allclose(session.infer(STEPS[0][0]), logits, rtol=1e-4, atol=1e-5)


def test_linen_bound_to_its_variables(variables):
    bound = LINEN.bind(variables, rngs={"dropout": jax.random.key(2)})
    with pytest.warns(UserWarning, match="draws random numbers from the constant key"):
        training = to_training(
            bound, lambda model, x, labels: cross_entropy(model(x), labels), OPTIMIZER, BATCH,
            infer=lambda model, x: model(x, train=False),
        )  # fmt: skip
    session = training.session()
    session.step(*STEPS[0])
    _, after = LINEN.apply(variables, STEPS[0][0], rngs={"dropout": jax.random.key(2)}, mutable=["batch_stats"])
    assert_close(training.weights(session)["batch_stats"], after["batch_stats"])


def test_an_inference_in_training_mode_is_refused(variables):
    with pytest.raises(OptionError, match=r"inference changes batch_stats.* as a step of training does\. Give infer="):
        to_training(
            (LINEN, variables), loss_of_linen, OPTIMIZER, BATCH, key=KEY,
            infer=lambda model, x: model(x, rngs={"dropout": KEY}),
        )  # fmt: skip


def test_a_mask_of_the_parameters_of_linen():
    model = nn.Sequential([nn.Dense(8), nn.relu, nn.Dense(3)])
    variables = model.init(KEY, STEPS[0][0])
    training = to_training(
        (model, variables), lambda model, x, labels: cross_entropy(model(x), labels), optax.sgd(0.1), BATCH,
        trained={"layers_0": False, "layers_2": True},
    )  # fmt: skip
    session = training.session()
    session.step(*STEPS[0])
    weights = training.weights(session)["params"]
    np.testing.assert_array_equal(weights["layers_0"]["kernel"], variables["params"]["layers_0"]["kernel"])
    assert not np.array_equal(weights["layers_2"]["kernel"], variables["params"]["layers_2"]["kernel"])


# -- Equinox -------------------------------------------------------------------------------------


class OfEquinox(eqx.Module):
    first: eqx.nn.Linear
    norm: eqx.nn.BatchNorm
    last: eqx.nn.Linear

    def __init__(self, key: jax.Array) -> None:
        one, other = jax.random.split(key)
        self.first, self.last = eqx.nn.Linear(6, 8, use_bias=False, key=one), eqx.nn.Linear(8, 3, key=other)
        self.norm = eqx.nn.BatchNorm(8, "batch", mode="ema")

    def __call__(self, x: jax.Array, state: Any) -> Any:
        x, state = self.norm(self.first(x), state)
        return self.last(jax.nn.relu(x)), state


def apply_equinox(model: Any, state: Any, x: jax.Array) -> Any:
    return jax.vmap(model, axis_name="batch", in_axes=(0, None), out_axes=(0, None))(x, state)


def test_equinox():
    model, state = eqx.nn.make_with_state(OfEquinox)(jax.random.key(0))
    params, static = eqx.partition(model, eqx.is_inexact_array)

    def loss(model: Any, state: Any, x: jax.Array, labels: jax.Array) -> Any:
        logits, state = apply_equinox(model, state, x)
        return cross_entropy(logits, labels), state

    def infer(model: Any, state: Any, x: jax.Array) -> Any:
        return apply_equinox(eqx.nn.inference_mode(model), state, x)[0]

    batch = [(8, 6), ((8,), "int32")]
    training = to_training(model, loss, OPTIMIZER, batch, variables=state, infer=infer)
    check(
        training, lambda params, state, key, x, labels: loss(eqx.combine(params, static), state, x, labels), params, state,
        lambda params, state: (eqx.combine(params, static), state),
    )  # fmt: skip
    session = training.session()
    session.step(*STEPS[0])
    weights = training.weights(session)
    np.testing.assert_allclose(
        session.infer(STEPS[0][0]),
        apply_equinox(eqx.nn.inference_mode(weights[0]), weights[1], STEPS[0][0])[0],
        rtol=1e-4,
        atol=1e-5,
    )


# -- Haiku ---------------------------------------------------------------------------------------


def of_haiku(x: jax.Array, is_training: bool = True) -> jax.Array:
    x = jax.nn.relu(hk.BatchNorm(True, True, 0.9)(hk.Linear(8, with_bias=False)(x), is_training))
    return hk.Linear(3)(hk.dropout(hk.next_rng_key(), 0.25, x) if is_training else x)


HAIKU: Any = hk.transform_with_state(of_haiku)


def perceptron_of_haiku() -> Any:
    return hk.without_apply_rng(hk.transform(lambda x: hk.nets.MLP([8, 3])(x)))


def test_haiku_with_its_state_apart():
    params, state = HAIKU.init(jax.random.key(0), STEPS[0][0])

    def loss(params: Any, state: Any, x: jax.Array, labels: jax.Array, key: jax.Array) -> Any:
        logits, state = HAIKU.apply(params, state, key, x)
        return cross_entropy(logits, labels), state

    training = to_training(
        params, loss, OPTIMIZER, BATCH, variables=state, key=KEY,
        infer=lambda params, state, x: HAIKU.apply(params, state, None, x, is_training=False)[0],
    )  # fmt: skip
    check(
        training,
        lambda params, state, key, x, labels: loss(params, state, x, labels, key),
        params,
        state,
        lambda *whole: whole,
    )
    assert training.session().infer(STEPS[0][0]).shape == (8, 3)


def test_haiku_as_a_pair_with_its_parameters():
    plain = perceptron_of_haiku()
    params = plain.init(jax.random.key(0), STEPS[0][0])
    training = to_training((plain, params), lambda model, x, labels: cross_entropy(model(x), labels), OPTIMIZER, BATCH)
    check(
        training, lambda params, state, key, x, labels: (cross_entropy(plain.apply(params, x), labels), state), params, (),
        lambda params, _: params,
    )  # fmt: skip
    session = training.session()
    np.testing.assert_allclose(session.infer(STEPS[0][0]), plain.apply(params, STEPS[0][0]), rtol=1e-4, atol=1e-5)
    assert session.evaluate(*STEPS[0]).keys() == {"loss"}


# -- Keras ---------------------------------------------------------------------------------------


def test_keras():
    keras.utils.set_random_seed(0)
    layers = keras.layers
    model = keras.Sequential([
        layers.Input((6,)), layers.Dense(8, use_bias=False), layers.BatchNormalization(), layers.ReLU(), layers.Dropout(0.25), layers.Dense(3)
    ])  # fmt: skip
    variables = [v.value for v in model.trainable_variables], [v.value for v in model.non_trainable_variables]

    def loss(params: Any, state: Any, key: jax.Array, x: jax.Array, labels: jax.Array) -> Any:
        logits, state = model.stateless_call(params, state, x, training=True)
        return cross_entropy(logits, labels), state

    training = to_training(
        model, lambda model, x, labels: cross_entropy(model(x, training=True), labels), OPTIMIZER, BATCH,
        infer=lambda model, x: model(x, training=False),
    )  # fmt: skip
    check(
        training, loss, *variables,
        lambda params, state: {
            v.path: x for v, x in zip([*model.trainable_variables, *model.non_trainable_variables], [*params, *state], strict=True)
        },
    )  # fmt: skip
    session = training.session()
    before = [np.array(v.value) for v in model.variables]
    session.step(*STEPS[0])
    assert all(np.array_equal(one, np.array(v.value)) for one, v in zip(before, model.variables, strict=True))
    weights = training.weights(session)
    for variable in model.variables:
        variable.assign(weights[variable.path])
    np.testing.assert_allclose(session.infer(STEPS[0][0]), model(STEPS[0][0]), rtol=1e-4, atol=1e-5)


def test_keys_of_the_old_kind():
    def loss(params: Any, x: jax.Array, labels: jax.Array, key: jax.Array) -> jax.Array:
        return cross_entropy((x + jax.random.normal(key, x.shape)) @ params, labels)

    key, params = jax.random.PRNGKey(0), jnp.ones((6, 3)) / 9
    training = to_training(params, loss, optax.sgd(0.1), [(8, 6), ((8,), "int32")], key=key)
    found = training.session().step(*STEPS[0])["loss"]
    x, labels = STEPS[0]
    np.testing.assert_allclose(found, loss(params, x, labels, jax.random.split(key)[0]), rtol=1e-5)
