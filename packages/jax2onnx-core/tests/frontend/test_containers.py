"""What a function stores in the user's lists, dicts and objects is put back to what it was."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from jax2onnx_core import to_onnx
from jax2onnx_core.plugins.errors import ExportWarning


class Model:
    def __init__(self):
        self.cache = [jnp.zeros(3)]
        self.seen = {"inner": {"last": None}}
        self.calls = 0

    def __call__(self, x):
        self.calls += 1
        self.cache[0] = self.cache[0] + x
        self.seen["inner"]["last"] = x
        self.added = 2 * x
        return self.cache[0] * 2


@pytest.fixture
def model():
    return Model()


@pytest.mark.parametrize("wrapped", [lambda m: m, lambda m: lambda x: m(x), lambda m: m.__call__])
def test_objects_hold_the_arrays_that_they_held(model, wrapped):
    before = model.cache[0]
    with pytest.warns(ExportWarning, match=r"cache\.0"):
        program = to_onnx(wrapped(model), [(3,)])
    program.verify()
    assert model.cache[0] is before
    assert model.seen == {"inner": {"last": None}}
    assert "added" not in vars(model)
    np.testing.assert_array_equal(program(np.ones(3, np.float32)), np.full(3, 2, np.float32))


def test_what_is_no_array_stays_stored(model):
    with pytest.warns(ExportWarning):
        to_onnx(model, [(3,)])
    assert model.calls > 0


def test_a_failing_function_leaves_nothing_either(model):
    def fail(x):
        model(x)
        raise ValueError("no")

    before = model.cache[0]
    with pytest.raises(ValueError, match="no"):
        to_onnx(fail, [(3,)])
    assert model.cache[0] is before


def test_lists_of_closures_hold_what_they_held():
    kept: list[object] = []

    def f(x):
        kept.append(x + 1)
        return x

    with pytest.warns(ExportWarning, match=r"kept\.0"):
        to_onnx(f, [(3,)])
    assert kept == []
