"""A program is a snapshot: what the user writes into his NumPy arrays afterwards does not change it."""

from __future__ import annotations

import functools

import jax
import numpy as np
import pytest
from jax2onnx_core import to_onnx
from jax2onnx_core.frontend._snapshots import ArraySnapshots

X = np.ones((1, 40), np.float32)


def closure(w):
    return lambda x: x @ w


def jitted(w):
    return jax.jit(lambda x: x @ w)


def scanned(w):
    return lambda x: jax.lax.scan(lambda carry, _: (carry @ w, None), x, None, length=1)[0]


def parameters(w):
    return functools.partial(lambda p, x: x @ p["w"], {"w": w})


@pytest.mark.parametrize("make", [closure, jitted, scanned, parameters])
def test_writing_into_an_array_does_not_change_the_program(make, tmp_path):
    w = np.ones((40, 40), np.float32)
    program = to_onnx(make(w), [("B", 40)])
    w[:] = 2
    np.testing.assert_array_equal(program(X), np.full((1, 40), 40, np.float32))
    np.testing.assert_array_equal(program.specialize(B=1)(X), np.full((1, 40), 40, np.float32))
    loaded = program.runtime.load(program.save(tmp_path / "m.onnx"))
    np.testing.assert_array_equal(loaded({"x": X})[0], np.full((1, 40), 40, np.float32))


def test_an_array_that_nobody_can_write_into_is_not_copied():
    array = np.ones(3)
    array.flags.writeable = False
    assert ArraySnapshots().snapshot("constant", array) is array


def test_a_view_that_is_read_only_is_copied_where_its_base_is_not():
    base = np.ones(3)
    view = base[:2]
    view.flags.writeable = False
    snapshots = ArraySnapshots()
    copy = snapshots.snapshot(view, view)
    base[:] = 2
    np.testing.assert_array_equal(snapshots.snapshot(view, view), [1, 1])
    assert snapshots.snapshot(view, view) is copy


@pytest.mark.parametrize(
    ("make", "name"), [(closure, "w"), (jitted, "w"), (parameters, "w")], ids=["closure", "jitted", "parameters"]
)
def test_numpy_weights_keep_their_names(make, name):
    program = to_onnx(make(np.random.default_rng(0).standard_normal((40, 40)).astype(np.float32)), [("B", 40)])
    assert list(program.model.graph.initializers) == [name]


def test_a_matrix_and_its_transpose_are_copied_once():
    snapshots, matrix = ArraySnapshots(), np.ones((3, 4))
    one, other = snapshots.snapshot("matrix", matrix), snapshots.snapshot("transpose", matrix.T)
    assert not np.shares_memory(one, matrix)
    assert np.shares_memory(one, other)
    assert other.shape == (4, 3)
