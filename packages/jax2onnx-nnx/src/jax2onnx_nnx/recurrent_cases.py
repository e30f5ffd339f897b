"""Cases of `recurrent`."""

from __future__ import annotations

import functools
from collections.abc import Callable

import jax
from flax import nnx
from jax.typing import DTypeLike
from jax2onnx_core import Case, construct, expect_graph, with_dtype, with_rngs

__all__ = ["cases"]

_OPTIONS = {"param_dtype": with_dtype(), "rngs": with_rngs(0)}
_X = [("B", "T", 5)]
# The constructors of the classes take more than that of their base class.
_CellClass = Callable[..., nnx.RNNCellBase]


def _pure(*, param_dtype: DTypeLike, rngs: nnx.Rngs) -> Callable[[jax.Array], jax.Array]:
    """An LSTM as a function: the module itself cannot be called inside a transformation of JAX's."""
    graph, state = nnx.split(nnx.RNN(nnx.OptimizedLSTMCell(5, 4, param_dtype=param_dtype, rngs=rngs)))
    return lambda x: nnx.merge(graph, state, copy=True)(x)


def _rnn(cell: _CellClass, options: dict[str, bool], **cell_options: object) -> nnx.RNN:
    return nnx.RNN(cell(5, 4, **cell_options), **options)  # type: ignore[arg-type]  # its flags, of all its options


def _bidirectional(cell: _CellClass, **cell_options: object) -> nnx.Bidirectional:
    return nnx.Bidirectional(*(nnx.RNN(cell(5, 4, **cell_options)) for _ in range(2)))


def _case(name: str, cell: _CellClass, operator: str, **options: bool) -> Case:
    return Case(
        name,
        construct(_rnn, cell, options, **_OPTIONS),
        _X,
        expect=_guarded(f"Transpose -> {operator}", counts=_counts(operator)),
    )


# Operators in branches: where numbers are not finite, the steps are a Scan, since kernels of the operators lose them.
_guarded = functools.partial(expect_graph, absent=["Loop"], search_functions=True)


def _counts(operator: str, count: int = 1, **others: int) -> dict[str, int]:
    return {operator: count, "If": count, "Scan": count, **others}


cases = [
    Case(
        "lstm",
        construct(_pure, **_OPTIONS),
        _X,
        expect=_guarded("Transpose -> LSTM", counts=_counts("LSTM")),
    ),
    _case("lstm_of_a_module", nnx.OptimizedLSTMCell, "LSTM"),
    _case("lstm_of_single_gates", nnx.LSTMCell, "LSTM"),
    _case("lstm_reversed", nnx.OptimizedLSTMCell, "LSTM", reverse=True, keep_order=True),
    _case("lstm_with_carry", nnx.OptimizedLSTMCell, "LSTM", return_carry=True),
    _case("gru", nnx.GRUCell, "GRU"),
    _case("gru_with_carry", nnx.GRUCell, "GRU", return_carry=True),
    Case(
        "simple",
        construct(_rnn, nnx.SimpleCell, {}, dtype=with_dtype(), **_OPTIONS),
        _X,
        expect=expect_graph("Transpose -> RNN", absent=["Scan", "Loop"]),
    ),
    Case(
        "lstm_reversed_twice",
        construct(_rnn, nnx.LSTMCell, {"reverse": True}, **_OPTIONS),
        _X,
        expect=expect_graph("Slice -> Transpose", "If -> Squeeze -> Transpose:BxTx4", counts={"If": 1, "Slice": 1}),
    ),
    Case(
        "lstm_time_major",
        construct(_rnn, nnx.LSTMCell, {"time_major": True}, **_OPTIONS),
        [("T", "B", 5)],
        expect=_guarded("If -> Squeeze:TxBx4", counts=_counts("LSTM", Transpose=0)),
    ),
    Case(
        "lstm_bidirectional",
        construct(_bidirectional, nnx.LSTMCell, **_OPTIONS),
        _X,
        expect=_guarded("If -> Transpose -> Reshape", counts=_counts("LSTM")),
    ),
    Case(
        "gru_bidirectional",
        construct(_bidirectional, nnx.GRUCell, **_OPTIONS),
        _X,
        expect=_guarded("If -> Transpose -> Reshape", counts=_counts("GRU")),
    ),
]
