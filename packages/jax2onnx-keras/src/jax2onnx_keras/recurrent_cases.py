"""Cases of `recurrent`."""

from __future__ import annotations

import functools
from typing import Any

from jax2onnx_core import Case, expect_graph
from keras import layers

from jax2onnx_keras._built import built

__all__ = ["cases"]

_SHAPE, _X = (None, None, 5), [("B", "T", 5)]
_LOOPS = ["Scan", "Loop"]
_ALL = {"return_sequences": True}
# Keras computes the hyperbolic tangent of doubles in single precision.
_SINGLE = 1e-5


def _case(name: str, layer: Any, operator: str, **options: Any) -> Case:
    expect = expect_graph(f"Transpose -> {operator}", counts={operator: 1}, absent=_LOOPS)
    return Case(name, built(layer, _SHAPE, 4, **options), _X, expect=expect, rtol=_SINGLE)


def _of_cell(cell: Any, dtype: str, **options: Any) -> Any:
    return layers.RNN(cell(4, dtype=dtype), dtype=dtype, **options)


def _bidirectional(dtype: str, **options: Any) -> Any:
    return layers.Bidirectional(layers.LSTM(4, dtype=dtype, return_sequences=True), dtype=dtype, **options)


cases = [
    _case("lstm", layers.LSTM, "LSTM", **_ALL),
    _case("lstm_last", layers.LSTM, "LSTM"),
    _case("lstm_with_states", layers.LSTM, "LSTM", return_state=True, **_ALL),
    _case("lstm_backwards", layers.LSTM, "LSTM", go_backwards=True, use_bias=False, **_ALL),
    _case("gru", layers.GRU, "GRU", **_ALL),
    _case("gru_reset_before", layers.GRU, "GRU", reset_after=False, return_state=True),
    Case(
        "simple_rnn",
        built(layers.SimpleRNN, _SHAPE, 4, **_ALL),
        _X,
        expect=expect_graph("Transpose -> RNN", absent=_LOOPS),
        skip={"f64": "the states of Keras' own cell become single precision"},
    ),
    Case(
        "lstm_of_another_activation",
        built(layers.LSTM, _SHAPE, 4, activation="relu"),
        _X,
        expect=expect_graph("Transpose -> LSTM", counts={"LSTM": 1}, absent=_LOOPS),
        rtol=_SINGLE,
    ),
    Case(
        "rnn_of_a_cell",
        built(functools.partial(_of_cell, layers.GRUCell), _SHAPE, **_ALL),
        _X,
        expect=expect_graph("GRU"),
        rtol=_SINGLE,
    ),
    Case(
        "lstm_from_states",
        built(layers.LSTM, _SHAPE, 4),
        _X,
        options={"kwargs": {"initial_state": [("B", 4), ("B", 4)]}},
        expect=expect_graph("LSTM", absent=_LOOPS),
        rtol=_SINGLE,
    ),
    Case(
        "lstm_masked",
        built(layers.LSTM, _SHAPE, 4),
        _X,
        options={"kwargs": {"mask": (("B", "T"), "bool")}},
        expect=expect_graph("Transpose:TxBx5 -> MatMul:TxBx16 -> Scan -> Gather:Bx4", counts={"Scan": 1}),
        rtol=_SINGLE,
    ),
    Case(
        "bidirectional",
        built(_bidirectional, _SHAPE),
        _X,
        expect=expect_graph("LSTM -> Where -> Transpose -> Reshape", counts={"LSTM": 1}, absent=[*_LOOPS, "Slice"]),
        rtol=_SINGLE,
    ),
    Case(
        "bidirectional_sum",
        built(_bidirectional, _SHAPE, merge_mode="sum"),
        _X,
        expect=expect_graph("LSTM -> Where -> Squeeze -> Add:TxBx4 -> Transpose", counts={"LSTM": 2}, absent=_LOOPS),
        rtol=_SINGLE,
    ),
]
