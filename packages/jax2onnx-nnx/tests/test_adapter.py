"""Modules as callables, in closures and in partials: their weights keep their paths, their state stays theirs."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
from flax import nnx
from jax2onnx_core import to_onnx
from jax2onnx_nnx._adapter import _parts


class Inner(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.calls = nnx.Variable(jax.numpy.zeros((), "int32"))
        self.layers = nnx.List([nnx.Linear(4, 8, rngs=rngs), nnx.Linear(8, 4, rngs=rngs)])

    def __call__(self, x: jax.Array) -> jax.Array:
        self.calls[...] += 1
        return self.layers[1](nnx.relu(self.layers[0](x)))

    def doubled(self, x: jax.Array) -> jax.Array:
        return 2 * self(x)


@pytest.fixture
def model() -> Inner:
    return Inner(nnx.Rngs(0))


def ways_to_call(model: Inner) -> dict[str, Callable[..., Any]]:
    return {
        "module": model,
        "bound method": model.doubled,
        "closure": lambda x: model(x) + 1,
        "partial": functools.partial(lambda m, x: m(x), model),
    }


@pytest.mark.filterwarnings("ignore::jax2onnx_core.plugins.errors.ExportWarning")  # the count of calls is not kept
@pytest.mark.parametrize("way", ["module", "bound method", "closure", "partial"])
def test_weights_keep_their_paths_and_state_is_the_users(model, way):
    fn = ways_to_call(model)[way]
    program = to_onnx(fn, [("B", 4)])
    names = set(program.model.graph.initializers)
    assert {"layers.0.kernel", "layers.0.bias", "layers.1.kernel", "layers.1.bias"} <= names
    assert int(model.calls[...]) == 0
    x = np.ones((3, 4), np.float32)
    np.testing.assert_allclose(program(x), fn(x), rtol=1e-5)


@pytest.mark.filterwarnings("ignore::jax2onnx_core.plugins.errors.ExportWarning")
def test_a_module_used_twice_stores_its_weights_once(model):
    program = to_onnx(lambda x: model(model(x)), [("B", 4)])
    assert len(program.model.graph.initializers) == 4


def test_training_and_evaluation_are_respected():
    class Net(nnx.Module):
        def __init__(self, rngs: nnx.Rngs) -> None:
            self.norm, self.drop = nnx.BatchNorm(4, rngs=rngs), nnx.Dropout(0.5, rngs=rngs)

        def __call__(self, x: jax.Array) -> jax.Array:
            return self.drop(self.norm(x))

    net = Net(nnx.Rngs(0))
    net.eval()
    program = to_onnx(net, [("B", 4)])
    program.verify()
    assert {node.op_type for node in program.model.graph} <= {"Mul", "Add", "Identity"}


class _Inner(nnx.Module):
    def __init__(self, shared: nnx.Linear) -> None:
        self.held = nnx.data({"first": nnx.Dropout(0.1), "rest": (shared, nnx.Linear(2, 2, rngs=nnx.Rngs(1)))})
        self.array = jax.numpy.ones(3)


class _Outer(nnx.Module):
    def __init__(self) -> None:
        rngs = nnx.Rngs(0)
        shared = nnx.Linear(2, 2, rngs=rngs)
        self.z = shared
        self.layers = nnx.List([*(nnx.Linear(2, 2, rngs=rngs) for _ in range(11)), _Inner(shared)])
        self.named = nnx.Dict(b=nnx.Linear(2, 2, rngs=rngs), a=shared)
        self.stack = nnx.Sequential(shared, nnx.relu, nnx.Dropout(0.5, rngs=rngs))


def test_parts_of_a_module_and_their_paths_are_those_that_flax_walks_over():
    module = _Outer()
    found = dict(_parts(module))
    for expected in (dict(nnx.iter_modules(module)), dict(nnx.to_flat_state(nnx.state(module)))):
        assert all(type(found[path]) is type(part) for path, part in expected.items())
    modules = {path: id(part) for path, part in found.items() if isinstance(part, nnx.Module)}
    assert modules == {path: id(part) for path, part in nnx.iter_modules(module)}
