"""Cases of `cell_scan`, among those of scans."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax
from jax2onnx_core import Case, expect_graph
from jax2onnx_graph.build.builder import Array

from jax2onnx_lax._case_helpers import ASSUME_FINITE
from jax2onnx_lax.nn._weights import weights

__all__ = ["cases"]

# Where numbers are not finite, the steps are a Scan, since kernels of the operators lose them.
_GUARDED = "ReduceSumSquare -> Less -> If -> Squeeze"

_INPUTS, _HIDDEN = 5, 4
_State = tuple[jax.Array, jax.Array]


def _weights(x: jax.Array, gates: int) -> tuple[Array, Array, Array, Array]:
    """The kernels of the input and of the hidden state, and both biases."""
    rows = gates * _HIDDEN
    arrays = weights(_INPUTS, rows), weights(_HIDDEN, rows), weights(rows), weights(rows) / 2
    kernel, recurrent, bias, other = (array.astype(x.dtype) for array in arrays)
    return kernel, recurrent, bias, other


def _lstm(x: jax.Array, h: jax.Array, c: jax.Array) -> tuple[jax.Array, _State]:
    """Gates in the order i, g, f, o; two biases; the states (h, c) after the sequence."""
    kernel, recurrent, bias, other = _weights(x, 4)

    def step(state: _State, row: jax.Array) -> tuple[_State, jax.Array]:
        i, g, f, o = jnp.split(row @ kernel + state[0] @ recurrent + (bias + other), 4, -1)
        cell = jax.nn.sigmoid(f) * state[1] + jax.nn.sigmoid(i) * jnp.tanh(g)
        hidden = jax.nn.sigmoid(o) * jnp.tanh(cell)
        return (hidden, cell), hidden

    last, y = lax.scan(step, (h, c), x.swapaxes(0, 1))
    return y.swapaxes(0, 1), last


def _gru(x: jax.Array) -> jax.Array:
    """Gates in the order z, r, n, each with weights of its own; the reset gate meets the hidden state itself."""
    kernel, recurrent, bias, _ = _weights(x, 3)
    kernels, recurrents = (jnp.split(array, 3, -1) for array in (kernel, recurrent))
    biases = jnp.split(bias, 3, -1)

    def step(h: jax.Array, row: jax.Array) -> tuple[jax.Array, jax.Array]:
        z, r = (jax.nn.sigmoid(row @ kernels[i] + h @ recurrents[i] + biases[i]) for i in (0, 1))
        n = jnp.tanh(row @ kernels[2] + (r * h) @ recurrents[2] + biases[2])
        h = (1 - z) * n + z * h
        return h, h

    return lax.scan(step, jnp.zeros((x.shape[1], _HIDDEN), x.dtype), x, reverse=True)[1]


def _rnn(x: jax.Array) -> jax.Array:
    """An RNN of relu, from a state of zeros that is given."""
    kernel, recurrent, bias, other = _weights(x, 1)
    first = jnp.zeros((x.shape[1], _HIDDEN), x.dtype)

    def step(h: jax.Array, row: jax.Array) -> tuple[jax.Array, jax.Array]:
        h = jax.nn.relu(row @ kernel + bias + h @ recurrent + other)
        return h, h

    return lax.scan(step, first, x)[1]


cases = [
    Case(
        "scan_of_an_lstm",
        _lstm,
        [("B", "T", _INPUTS), ("B", _HIDDEN), ("B", _HIDDEN)],
        covers=("scan",),
        expect=expect_graph(
            "Transpose -> LSTM", counts={"LSTM": 1, "If": 1, "Scan": 1}, absent=["Loop"], search_functions=True
        ),
    ),
    Case(
        "scan_of_a_gru_reversed",
        _gru,
        [("T", "B", _INPUTS)],
        covers=("scan",),
        expect=expect_graph(
            _GUARDED, counts={"GRU": 1, "Scan": 1}, attrs={"GRU": {"direction": "reverse"}}, search_functions=True
        ),
    ),
    Case(
        "scan_of_an_rnn_of_relu",
        _rnn,
        [("T", "B", _INPUTS)],
        covers=("scan",),
        expect=expect_graph(
            _GUARDED, counts={"RNN": 1, "Scan": 1}, attrs={"RNN": {"activations": ["Relu"]}}, search_functions=True
        ),
    ),
    Case(
        "scan_of_a_finite_rnn",
        _rnn,
        [("T", "B", _INPUTS)],
        covers=("scan",),
        expect="RNN -> Squeeze",
        options=ASSUME_FINITE,
    ),
]
