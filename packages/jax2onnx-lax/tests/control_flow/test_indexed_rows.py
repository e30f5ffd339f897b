"""Loops that index rows by their counter become scans over rows; those that only seem to do not."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax2onnx_core import to_onnx


def _forwards(x):
    def body(t, carry):
        s, ys = carry
        s = jnp.tanh(s + x[t])
        return s, ys.at[t].set(2 * s)

    return lax.fori_loop(0, x.shape[0], body, (jnp.zeros(3), jnp.ones((x.shape[0], 3))))


def _backwards(x):
    """Rows lie along the second axis, and come from the last one to the first."""
    length = x.shape[1]

    def body(t, carry):
        s, ys = carry
        s = jnp.tanh(s + lax.dynamic_index_in_dim(x, length - 1 - t, 1, keepdims=False))
        return s, lax.dynamic_update_index_in_dim(ys, s, length - 1 - t, 0)

    return lax.fori_loop(0, length, body, (jnp.zeros(3), jnp.ones((length, 3))))


def _of_a_part(x):
    """Only the rows 2, 3, … of a longer array are read, and rows 1, 2, … of another written."""

    def body(t, carry):
        s, ys = carry
        s = jnp.tanh(s + x[t] + x[t - 2])
        return s, ys.at[t - 1].set(s)

    return lax.fori_loop(2, 8, body, (jnp.zeros(3), jnp.ones((12, 3))))


def _along_the_second_axis(x):
    """Rows lie and are written along the second axis, with an axis of size one; some of the array stays."""

    def body(t, carry):
        s, ys = carry
        s = jnp.tanh(s + lax.dynamic_index_in_dim(x, t, 1))
        return s, lax.dynamic_update_slice_in_dim(ys, s, t + 1, 1)

    return lax.fori_loop(0, x.shape[1], body, (jnp.zeros((3, 1)), jnp.ones((3, x.shape[1] + 2))))


def _unused(x):
    return lax.fori_loop(0, x.shape[0], lambda t, ys: ys.at[t].set(x[t] * t), jnp.ones((x.shape[0], 3)))


def _scans_in(program):
    return [node for node in program.model.graph if node.op_type == "Scan"]


def _agree(program, function, x):
    for y, expected in zip(jax.tree.leaves(program(x)), jax.tree.leaves(jax.jit(function)(x)), strict=True):
        np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("function", "shape"),
    [
        (_forwards, (9, 3)),
        (_backwards, (3, 9)),
        (_of_a_part, (9, 3)),
        (jax.vmap(_forwards), (2, 9, 3)),
        (_along_the_second_axis, (3, 9)),
    ],
    ids=["forwards", "backwards", "part", "mapped", "second axis"],
)
def test_rows_at_the_counter_are_those_of_a_scan(function, shape):
    program = to_onnx(function, [shape])
    (scan,) = _scans_in(program)
    body = [node.op_type for node in scan.attributes["body"].as_graph()]
    assert set(body) <= {"Add", "Identity", "Mul", "Tanh", "Unsqueeze"}, body
    _agree(program, function, np.random.default_rng(0).normal(size=shape).astype(np.float32))


@pytest.mark.parametrize(
    ("function", "shape"), [(_forwards, ("T", 3)), (_backwards, (3, "T")), (_unused, ("T", 3))], ids=["forwards", "backwards", "unused"]
)  # fmt: skip
def test_a_symbolic_number_of_rows(function, shape):
    program = to_onnx(function, [shape])
    assert "Loop" not in {node.op_type for node in program.model.graph}
    for length in (1, 2, 9):
        x = np.full([length if dim == "T" else dim for dim in shape], np.nan, np.float32)
        _agree(program, function, x)
        _agree(program, function, np.arange(x.size, dtype=np.float32).reshape(x.shape) / x.size)


def _beyond_the_end(x):
    """The last rows are dropped, and those that are read are clamped."""
    return lax.fori_loop(0, 9, lambda t, ys: ys.at[t + 3].set(x[t + 5]), jnp.ones((9, 3)))


def _from_the_end(x):
    """Negative indices count from the end."""
    return lax.fori_loop(0, 9, lambda t, ys: ys.at[t - 4].set(x[t - 4]), jnp.ones((9, 3)))


def _read_again(x):
    return lax.fori_loop(1, 9, lambda t, ys: ys.at[t].set(0.5 * ys[t - 1] + x[t]), jnp.ones((9, 3)))


def _written_twice(x):
    return lax.fori_loop(0, 8, lambda t, ys: ys.at[t].set(x[t]).at[t + 1].set(x[t] + 1), jnp.ones((9, 3)))


def _at_every_other_row(x):
    return lax.fori_loop(0, 4, lambda t, ys: ys.at[2 * t].set(x[2 * t]), jnp.ones((9, 3)))


def _with_sums(x):
    return lax.fori_loop(0, 9, lambda t, ys: ys.at[t].add(x[t]), jnp.ones((9, 3)))


def _by_a_function(x):
    return lax.fori_loop(0, 9, lambda t, ys: ys.at[t].apply(jnp.sin), x)


@pytest.mark.parametrize(
    "function",
    [_beyond_the_end, _from_the_end, _read_again, _written_twice, _at_every_other_row, _with_sums, _by_a_function],
)
def test_other_indices_stay_what_they_are(function):
    x = np.random.default_rng(0).normal(size=(9, 3)).astype(np.float32)
    _agree(to_onnx(function, [x.shape]), function, x)
