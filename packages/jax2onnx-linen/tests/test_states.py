"""Collections that calls change, as states of the model."""

from __future__ import annotations

import functools

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax2onnx_core import errors, to_onnx

X = np.random.default_rng(0).standard_normal((8, 2, 1, 16)).astype(np.float32)


class Decoder(nn.Module):
    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        x = nn.Dense(16)(x)
        return nn.MultiHeadDotProductAttention(4, decode=True)(x)


@pytest.fixture(scope="module")
def variables():
    return Decoder().init(jax.random.key(0), jnp.zeros((2, 8, 16)))


FORMS = {
    "bound": lambda v: Decoder().bind(v),
    "pair": lambda v: (Decoder(), v),
    "partial": lambda v: functools.partial(Decoder().apply, v),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_decoding_cache_is_a_state(variables, form):
    session = to_onnx(FORMS[form](variables), [(2, 1, 16)], states="cache").session(threads=1)
    loop = variables
    for x in X:
        expected, new = Decoder().apply(loop, x, mutable=["cache"])
        loop = {**loop, **new}
        np.testing.assert_allclose(session.step(x), expected, rtol=1e-4, atol=1e-5)
    assert session.state["state.MultiHeadDotProductAttention_0.cache_index"] == 8


@pytest.mark.parametrize("form", FORMS)
def test_one_decoder_runs_for_every_batch_and_capacity(variables, form):
    program = to_onnx(
        FORMS[form](variables), [("B", 1, 16)], states="cache", state_shapes={"cached_*": ("B", "C", ...)}
    )
    for batch, capacity in [(1, 3), (2, 8), (3, 4)]:
        loop = {**variables, "cache": Decoder().init(jax.random.key(0), jnp.zeros((batch, capacity, 16)))["cache"]}
        session = program.session(sizes={"B": batch, "C": capacity}, threads=1)
        for x in np.random.default_rng(batch).standard_normal((3, batch, 1, 16)).astype(np.float32):
            expected, new = Decoder().apply(loop, x, mutable=["cache"])
            loop = {**loop, **new}
            np.testing.assert_allclose(session.step(x), expected, rtol=1e-4, atol=1e-5)


def test_states_begin_as_the_variables_are():
    norm = nn.BatchNorm(use_running_average=False)
    variables = norm.init(jax.random.key(0), jnp.ones((4, 3)))
    session = to_onnx((norm, variables), [(4, 3)], states=("batch_stats",)).session()
    assert session.state["state.var"].tolist() == [1, 1, 1]
    x = np.random.default_rng(1).standard_normal((4, 3)).astype(np.float32)
    expected, new = norm.apply(variables, x, mutable=["batch_stats"])
    np.testing.assert_allclose(session.step(x), expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(session.state["state.var"], new["batch_stats"]["var"], rtol=1e-5)


def test_two_ways_to_say_it(variables):
    partial = functools.partial(Decoder().apply, variables, mutable=["cache"])
    with pytest.raises(errors.OptionError, match="makes new variables outputs, and so does mutable="):
        to_onnx(partial, [(2, 1, 16)], states="cache")


def test_states_of_an_explicit_call(variables):
    """The user's own function of the state, as Linen programs are written."""

    def step(cache, x):
        y, new = Decoder().apply({"params": variables["params"], "cache": cache}, x, mutable=["cache"])
        return y, new["cache"]

    session = to_onnx(step, [variables["cache"], (2, 1, 16)], states={0: 1}).session()
    expected, _ = Decoder().apply(variables, X[0], mutable=["cache"])
    np.testing.assert_allclose(session.step(X[0]), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("states", ["intermediates", jnp.ndarray, 3])
def test_no_such_state(variables, states):
    with pytest.raises(errors.OptionError, match="means no state of a model here"):
        to_onnx((Decoder(), variables), [(2, 1, 16)], states=states)


class Shift(nn.Module):
    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        return x + self.param("mean", nn.initializers.constant(2.0), (3,))


class Named(nn.Module):
    """A module, called as a collection is, beside a parameter and a variable of this collection with one name."""

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        y = Shift(name="batch_stats")(x)
        mean = self.variable("batch_stats", "mean", jnp.full, 3, 50.0)
        if not self.is_initializing():
            mean.value = mean.value + 1
        return y * self.param("mean", nn.initializers.constant(3.0), (3,)) + mean.value


def test_variables_whose_names_nest_are_apart():
    model, x = Named(), jnp.ones((1, 3))
    variables = model.init(jax.random.key(0), x)
    session = to_onnx((model, variables), [(1, 3)], states="batch_stats").session()
    assert list(session.state) == ["state.batch_stats.mean_1"]
    for expected in (60, 61):
        assert session.step(x).tolist() == [[expected] * 3]
