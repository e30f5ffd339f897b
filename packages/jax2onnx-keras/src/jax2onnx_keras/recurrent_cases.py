"""Cases of `recurrent`."""

from __future__ import annotations

import functools
from typing import Any

from jax2onnx_core import Case, expect_graph
from keras import layers

from jax2onnx_keras._built import built

__all__ = ["cases"]

_SHAPE, _X = (None, None, 5), [("B", "T", 5)]
_ALL = {"return_sequences": True}
# Keras computes the hyperbolic tangent of doubles in single precision.
_SINGLE = 1e-5


def _case(name: str, layer: Any, operator: str, **options: Any) -> Case:
    expect = _guarded(f"Transpose -> {operator}", counts=_counts(operator))
    return Case(name, built(layer, _SHAPE, 4, **options), _X, expect=expect, rtol=_SINGLE)


# Operators in branches: where numbers are not finite, the steps are a Scan, since kernels of the operators lose them.
_guarded = functools.partial(expect_graph, absent=["Loop"], search_functions=True)


def _counts(operator: str, count: int = 1, **others: int) -> dict[str, int]:
    return {operator: count, "If": count, "Scan": count, **others}


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
        expect=expect_graph("Transpose -> RNN", absent=["Scan", "Loop", "If"]),
        skip={"f64": "the states of Keras' own cell become single precision"},
    ),
    Case(
        "lstm_of_another_activation",
        built(layers.LSTM, _SHAPE, 4, activation="relu"),
        _X,
        expect=_guarded("Transpose -> LSTM", counts=_counts("LSTM")),
        rtol=_SINGLE,
    ),
    Case(
        "rnn_of_a_cell",
        built(functools.partial(_of_cell, layers.GRUCell), _SHAPE, **_ALL),
        _X,
        expect=_guarded("Transpose -> GRU", counts=_counts("GRU")),
        rtol=_SINGLE,
    ),
    Case(
        "lstm_from_states",
        built(layers.LSTM, _SHAPE, 4),
        _X,
        options={"kwargs": {"initial_state": [("B", 4), ("B", 4)]}},
        expect=_guarded("Transpose -> LSTM", counts=_counts("LSTM")),
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
        expect=_guarded("If -> Transpose -> Reshape", counts=_counts("LSTM", Slice=0)),
        rtol=_SINGLE,
    ),
    Case(
        "bidirectional_sum",
        built(_bidirectional, _SHAPE, merge_mode="sum"),
        _X,
        expect=_guarded("If -> Squeeze -> Add:TxBx4 -> Transpose", counts=_counts("LSTM", 2)),
        rtol=_SINGLE,
    ),
]
