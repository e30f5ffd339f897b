"""Objects of arrays as specifications of themselves."""

from __future__ import annotations

import jax
import numpy as np
import pytest
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
