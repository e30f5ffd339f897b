"""Cases of `recurrent`."""

from __future__ import annotations

import functools
from typing import Any

import haiku as hk
import jax
import jax.numpy as jnp
from jax2onnx_core import expect_graph
from jax2onnx_core.jax_types import PyTree

from jax2onnx_haiku._layer_case import layer_case

__all__ = ["cases"]

_X = [("T", "B", 5)]
# Where numbers are not finite, the steps are a Scan, since kernels of the operators lose them.
_GUARDED = "ReduceSumSquare -> Less -> If -> Squeeze"
#: The same of an LSTM, beside other operators.
_guarded = functools.partial(
    expect_graph, counts={"LSTM": 1, "If": 1, "Scan": 1}, absent=["Loop"], search_functions=True
)


def _zeros(core: Any, x: jax.Array, batch_axis: int = 1) -> PyTree:
    """The initial state, in the type of `x`."""
    return jax.tree.map(lambda state: state.astype(x.dtype), core.initial_state(x.shape[batch_axis]))


def _unrolled(core: Any, x: jax.Array, **options: bool) -> tuple[jax.Array, PyTree]:
    return hk.dynamic_unroll(core, x, _zeros(core, x, 1 if options.get("time_major", True) else 0), **options)


def _bidirectional(x: jax.Array) -> jax.Array:
    return jnp.concatenate([_unrolled(hk.LSTM(4), x)[0], _unrolled(hk.LSTM(4), x, reverse=True)[0]], -1)


def _resetting(x: jax.Array) -> jax.Array:
    core = hk.ResetCore(hk.LSTM(4))
    return hk.dynamic_unroll(core, (x, x[..., 0] > 0), _zeros(core, x))[0]


cases = [
    layer_case(
        "lstm",
        lambda x: _unrolled(hk.LSTM(4), x)[0],
        _X,
        covers=("haiku.static_unroll", "haiku.dynamic_unroll"),
        expect=_GUARDED,
    ),
    layer_case(
        "lstm_with_states",
        lambda x, h, c: hk.dynamic_unroll(hk.LSTM(4), x, hk.LSTMState(h, c)),
        [*_X, ("B", 4), ("B", 4)],
        expect=_guarded("Unsqueeze -> ReduceSumSquare -> Add -> Less -> And -> If -> Squeeze"),
    ),
    layer_case(
        "lstm_reversed",
        lambda x: _unrolled(hk.LSTM(4), x, time_major=False, reverse=True)[0],
        [("B", "T", 5)],
        expect=_guarded("Transpose -> LSTM"),
    ),
    layer_case(
        "lstm_in_both_directions", _bidirectional, _X, expect=_guarded("If -> Transpose -> Reshape")
    ),
    layer_case(
        "lstm_unrolled",
        lambda x: hk.static_unroll(core := hk.LSTM(4), x, _zeros(core, x))[0],
        [(3, "B", 5)],
        expect=_GUARDED,
    ),
    layer_case(
        "lstm_of_all_states",
        lambda x: _unrolled(hk.LSTM(4), x, return_all_states=True),
        _X,
        expect=expect_graph("Expand:Bx4 -> Scan", counts={"Scan": 1}, absent=["LSTM"]),
    ),
    layer_case(
        "lstm_that_is_reset",
        _resetting,
        _X,
        expect=expect_graph("Greater:TxB -> Reshape:TxBx1 -> Scan", counts={"Scan": 1}, absent=["LSTM"]),
    ),
    layer_case(
        "gru", lambda x: _unrolled(hk.GRU(4), x)[0], _X, expect=_GUARDED
    ),
    layer_case(
        "rnn", lambda x: _unrolled(hk.VanillaRNN(4), x)[0], _X, expect=_GUARDED
    ),
    layer_case(
        "rnn_of_one_bias",
        lambda x: _unrolled(hk.VanillaRNN(4, double_bias=False), x)[1],
        _X,
        expect=_GUARDED,
    ),
    layer_case(
        "rnn_of_layers",
        lambda x: _unrolled(hk.DeepRNN([hk.LSTM(4), hk.GRU(3)]), x)[0],
        _X,
        expect="ReduceSumSquare -> Less -> If -> Squeeze -> ReduceSumSquare -> Less -> If -> Squeeze",
    ),
    layer_case(
        "rnn_with_skip_connections",
        lambda x: _unrolled(hk.deep_rnn_with_skip_connections([hk.LSTM(4), hk.GRU(3)]), x)[0],
        _X,
        expect=expect_graph("Scan -> Concat:TxBx7", counts={"Scan": 1}),
    ),
]  # fmt: skip
