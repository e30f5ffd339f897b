"""Objects of arrays as specifications of themselves."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy as np
import pytest
from jax.example_libraries import stax
from jax2onnx_core import to_onnx


@jax.tree_util.register_pytree_node_class
class Layer:
    """A module whose sizes were filtered out, as `eqx.partition` does, and that has no biases."""

    def __init__(self, weight, sizes=(None,), biases=()):
        self.weight, self.sizes, self.biases = weight, sizes, biases

    def tree_flatten(self):
        return (self.weight, self.sizes, self.biases), None

    @classmethod
    def tree_unflatten(cls, _, children):
        return cls(*children)


@pytest.mark.parametrize("weight", [np.ones((3,), np.float32), jax.ShapeDtypeStruct((3,), np.float32)])
def test_tuples_in_an_object_that_holds_arrays_are_no_shapes(weight):
    def fn(layer, x):
        assert layer.sizes == (None,)
        assert layer.biases == ()
        return x * layer.weight

    program = to_onnx(fn, [Layer(weight), ("B", 3)])
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(program(Layer(np.full(3, 2, np.float32)), x), x * 2)


def test_tuples_in_an_object_of_shapes_are_shapes():
    program = to_onnx(lambda layer: layer.weight * layer.biases, [Layer(("B", 3), (2,), ())])
    program.verify()
    assert program(Layer(np.ones((4, 3), np.float32), np.ones(2, np.float32), np.float32(2))).shape == (4, 3)


class Counted(NamedTuple):
    """A state with an empty part, as `optax.MultiSteps` has it."""

    count: Any
    skipped: Any


def test_empty_tuples_beside_arrays_are_no_shapes():
    program = to_onnx(lambda state: state._replace(count=state.count + 1), [Counted(np.zeros(3, np.float32), ())])
    state = program(Counted(np.ones(3, np.float32), ()))
    np.testing.assert_array_equal(state.count, np.full(3, 2, np.float32))
    assert state.skipped == ()


def test_layers_without_parameters_are_parts_of_the_parameters():
    init, apply = stax.serial(stax.Dense(2), stax.Relu, stax.Dense(1))
    _, params = init(jax.random.key(0), (-1, 3))
    to_onnx(apply, [params, ("B", 3)]).verify()


@jax.tree_util.register_pytree_node_class
class Sorted:
    """An object whose children are those of its attributes that are arrays, as those of a distribution of distrax."""

    def __init__(self, **attributes):
        vars(self).update(attributes)

    def tree_flatten(self):
        children = {k: v for k, v in vars(self).items() if isinstance(v, jax.Array | np.ndarray)}
        return list(children.values()), (
            tuple(children),
            tuple((k, v) for k, v in vars(self).items() if k not in children),
        )

    @classmethod
    def tree_unflatten(cls, static, children):
        names, others = static
        return cls(**dict(zip(names, children, strict=True)), **dict(others))


@pytest.mark.parametrize("holding", [lambda one: one, lambda one: {"a": [one]}])
def test_an_object_that_asks_what_is_an_array_is_an_example(holding):
    def fn(held, x):
        one = held if isinstance(held, Sorted) else held["a"][0]
        return (x - one.mean) * one.power

    program = to_onnx(fn, [holding(Sorted(mean=np.ones(3, np.float32), power=2)), ("B", 3)])
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(program(holding(Sorted(mean=np.full(3, 4, np.float32), power=2)), x), (x - 4) * 2)
