"""Tests of errors: objects that cannot be exported as they are given, each with a sentence that says what to do."""

from __future__ import annotations

import functools
import warnings
from typing import Any

import flax.linen as nn
import jax
import numpy as np
import pytest
from flax import errors as flax_errors
from jax2onnx_core import errors, to_onnx
from jax2onnx_linen._trained import trained_variables

X = np.ones((3, 5), np.float32)


class Net(nn.Module):
    @nn.compact
    def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
        x = nn.BatchNorm(use_running_average=not train)(nn.Dense(8)(x))
        return nn.Dropout(0.5, deterministic=not train)(x)


net = Net()
variables = trained_variables(net, X)


def notes_of(fn: Any, expected: type[Exception], inputs: Any = (("B", 5),)) -> str:
    with pytest.raises(expected) as caught:
        to_onnx(fn, list(inputs))
    return "\n".join(caught.value.__notes__)


@pytest.mark.parametrize("fn", [net.apply, functools.partial(net.apply, train=False), (net, None)])
def test_a_module_without_variables(fn: Any) -> None:
    with pytest.raises(
        errors.InputError, match=r"Give to_onnx the module with its variables: module\.bind\(variables\)"
    ):
        to_onnx(fn, [("B", 5)])


class WithSetup(nn.Module):
    def setup(self) -> None:
        self.dense = nn.Dense(8)

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.dense(x)


@pytest.mark.parametrize("fn", [net, nn.Dense(3), lambda x: net(x) + 1, WithSetup()])
def test_an_unbound_module(fn: Any) -> None:
    expected = AttributeError if isinstance(fn, WithSetup) else flax_errors.CallCompactUnboundModuleError
    assert "Give to_onnx the module with its variables" in notes_of(fn, expected)


def test_a_module_bound_to_variables_of_another() -> None:
    other = trained_variables(nn.Dense(8), X)
    assert "not those of this module" in notes_of(net.bind(other), flax_errors.ScopeParamNotFoundError)
    assert "number of features" in notes_of(net.bind(variables), flax_errors.ScopeParamShapeError, [("B", 7)])


def test_variables_of_another_module() -> None:
    other = trained_variables(nn.Dense(8), X)
    assert "not those of this module" in notes_of((net, other), flax_errors.ScopeParamNotFoundError)
    assert "not those of this module" in notes_of((nn.Dense(3), other), flax_errors.ScopeParamShapeError)


def test_another_number_of_features() -> None:
    assert "number of features" in notes_of((net, variables), flax_errors.ScopeParamShapeError, [("B", 7)])


@pytest.mark.parametrize("given", [{"params": variables["params"]}, variables["params"]])
def test_missing_collections(given: Any) -> None:
    notes = notes_of((net, given), flax_errors.ScopeCollectionNotFound)
    assert "Give all collections that module.init returned" in notes


def test_training_mode() -> None:
    train = functools.partial(net.apply, variables, train=True)
    assert "train=False" in notes_of(train, flax_errors.ModifyScopeVariableError)
    assert "deterministic=True" in notes_of((nn.Dropout(0.5, deterministic=False), {}), flax_errors.InvalidRngError)


def test_constant_random_numbers() -> None:
    key = jax.random.key(0)
    train = functools.partial(net.apply, variables, train=True, mutable=["batch_stats"], rngs={"dropout": key})
    with pytest.warns(errors.ExportWarning, match=r"draws random numbers from the constant key rngs\.dropout"):
        to_onnx(train, [("B", 5)])
    bound = nn.Dropout(0.5, deterministic=False).bind({}, rngs={"dropout": key})
    with pytest.warns(errors.ExportWarning, match=r"Dropout draws random numbers from the constant key rngs\.dropout"):
        to_onnx(bound, [("B", 5)])


def test_statistics_that_are_a_result() -> None:
    norm = nn.BatchNorm(use_running_average=False)
    step = functools.partial(norm.apply, trained_variables(norm, X), mutable=["batch_stats"])
    with warnings.catch_warnings(action="error"):
        program = to_onnx(step, [("B", 5)])
    got, want = program(X), step(X)
    jax.tree.map(functools.partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-6), got, want)
