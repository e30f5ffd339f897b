"""Modules and their variables in all forms in which programs hold them: the weights keep their paths."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import flax
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax.training import train_state
from jax2onnx_core import to_onnx
from jax2onnx_linen._trained import trained_variables

X = np.ones((3, 5), np.float32)
WEIGHTS = {"encoder.Dense_0.kernel", "encoder.Dense_0.bias", "decoder.kernel", "decoder.bias"}


class Encoder(nn.Module):
    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        return nn.relu(nn.BatchNorm(use_running_average=True)(nn.Dense(8)(x)))


class Net(nn.Module):
    def setup(self) -> None:
        self.encoder = Encoder()
        self.decoder = nn.Dense(3)

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.decoder(self.encoder(x))

    def encode(self, x: jax.Array) -> jax.Array:
        return self.encoder(x)


class State(train_state.TrainState):
    batch_stats: Any


@flax.struct.dataclass
class Weights:
    params: Any
    batch_stats: Any


net = Net()
variables = trained_variables(net, X)
state = State(0, net.apply, tx=None, opt_state=None, **variables)
weights = Weights(**variables)
bound = net.bind(variables)
loaded = jax.tree.map(np.asarray, variables)

WAYS: dict[str, Any] = {
    "bound module": bound,
    "pair": (net, variables),
    "pair of a frozen dict": (net, flax.core.freeze(variables)),
    "pair of NumPy's arrays": (net, loaded),
    "partial": functools.partial(net.apply, variables),
    "partial of NumPy's arrays": functools.partial(net.apply, loaded),
    "partial with a method": functools.partial(net.apply, variables, method="__call__"),
    "closure": lambda x: net.apply(variables, x),
    "closure over a bound module": lambda x: bound(x),
    "training state": lambda x: state.apply_fn({"params": state.params, "batch_stats": state.batch_stats}, x),
    "dataclass": lambda x: net.apply({"params": weights.params, "batch_stats": weights.batch_stats}, x),
    "jit": jax.jit(functools.partial(net.apply, variables)),
    "vmap": jax.vmap(functools.partial(net.apply, variables)),
}


@pytest.mark.parametrize("way", WAYS)
def test_weights_keep_their_paths(way: str) -> None:
    program = to_onnx(WAYS[way], [("B", 5)])
    assert set(program.model.graph.initializers) >= WEIGHTS
    np.testing.assert_allclose(program(X), net.apply(variables, X), rtol=1e-5)


@pytest.mark.parametrize("method", [bound.encode, bound.encoder, lambda x: bound.encoder(x)])
def test_methods_and_parts_of_bound_modules(method: Callable[..., Any]) -> None:
    program = to_onnx(method, [("B", 5)])
    assert "Dense_0.kernel" in {name.removeprefix("encoder.") for name in program.model.graph.initializers}
    np.testing.assert_allclose(program(X), bound.encode(X), rtol=1e-5)


@pytest.mark.parametrize("way", ["bound module", "pair", "partial"])
def test_inputs_have_the_names_of_the_parameters(way: str) -> None:
    assert list(to_onnx(WAYS[way], [("B", 5)]).input_names) == ["x"]


def test_variables_may_be_inputs() -> None:
    program = to_onnx(net.apply, [variables, ("B", 5)])
    np.testing.assert_allclose(program(variables, X), net.apply(variables, X), rtol=1e-5)


def test_a_layer_used_twice_stores_its_weights_once() -> None:
    layer = nn.Dense(5).bind(trained_variables(nn.Dense(5), X))
    program = to_onnx(lambda x: layer(nn.relu(layer(x))), [("B", 5)])
    assert set(program.model.graph.initializers) == {"kernel", "bias"}


def test_two_collections_with_the_same_path() -> None:
    class Scaled(nn.Module):
        @nn.compact
        def __call__(self, x: jax.Array) -> jax.Array:
            scale = self.param("scale", nn.initializers.ones, (5,))
            return x * scale + self.variable("offsets", "scale", jnp.zeros, (5,)).value

    program = to_onnx((Scaled(), trained_variables(Scaled(), X[0])), [(5,)])
    assert set(program.model.graph.initializers) == {"scale", "offsets.scale"}


def test_partitioned_parameters() -> None:
    layer = nn.Dense(5, kernel_init=nn.with_partitioning(nn.initializers.lecun_normal(), (None, "model")))
    program = to_onnx((layer, layer.init(jax.random.key(0), X)), [("B", 5)])
    assert set(program.model.graph.initializers) == {"kernel", "bias"}
    assert [node.op_type for node in program.model.graph] == ["MatMul", "Add"]


def test_the_module_of_the_user_stays_as_it_is() -> None:
    norm = nn.BatchNorm(use_running_average=False)
    given = norm.bind(trained_variables(norm, X), mutable=["batch_stats"])
    before = given.variables["batch_stats"]["mean"]
    with pytest.warns(match="BatchNorm changes mean, var"):
        to_onnx(given, [("B", 5)])
    assert given.variables["batch_stats"]["mean"] is before


def test_captured_intermediates_are_those_of_flax() -> None:
    apply = functools.partial(net.apply, variables, capture_intermediates=True, mutable=["intermediates"])
    got, want = to_onnx(apply, [("B", 5)])(X), apply(X)
    jax.tree.map(functools.partial(np.testing.assert_allclose, rtol=1e-5), got, want)


def test_interceptors_see_every_layer() -> None:
    seen = []

    def interceptor(call: Callable[..., Any], args: Any, kwargs: Any, context: Any) -> Any:
        seen.append(type(context.module).__name__)
        return call(*args, **kwargs)

    def fn(x: jax.Array) -> jax.Array:
        with nn.intercept_methods(interceptor):
            return net.apply(variables, x)

    to_onnx(fn, [("B", 5)])
    assert seen.count("Dense") == 2
