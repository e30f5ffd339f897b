"""Cases of `recurrent`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax
from jax.typing import DTypeLike
from jax2onnx_core import Case, construct, expect_graph, with_dtype

from jax2onnx_linen._trained import trained

__all__ = ["cases"]

_DTYPE = {"dtype": with_dtype()}
_X = [("B", "T", 5)]


class Stack(nn.Module):
    """Layers whose cells belong to the module around them, the second backwards."""

    param_dtype: DTypeLike

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        layers = [_rnn(nn.GRUCell, self.param_dtype), _rnn(nn.GRUCell, self.param_dtype, reverse=True, keep_order=True)]
        for layer in layers:
            x = layer(x)  # type: ignore[assignment]  # a pair only with return_carry
        return x


def _rnn(cell: Callable[..., nn.RNNCellBase], param_dtype: DTypeLike, **options: bool) -> nn.RNN:
    return nn.RNN(cell(4, param_dtype=param_dtype), **options)  # type: ignore[arg-type]  # its flags, of all its options


def _bidirectional(param_dtype: DTypeLike) -> nn.Bidirectional:
    return nn.Bidirectional(_rnn(nn.LSTMCell, param_dtype), _rnn(nn.OptimizedLSTMCell, param_dtype))


def _trained(*args: Any, dtype: DTypeLike, **options: Any) -> nn.Module:
    layer, *rest = args
    return trained(layer, (1, 3, 5), *rest, dtype=dtype, param_dtype=dtype, **options)


def _case(name: str, cell: type[nn.RNNCellBase], operator: str, **options: bool) -> Case:
    expect = _guarded(f"Transpose -> {operator}", counts=_counts(operator))
    return Case(name, construct(_trained, _rnn, cell, **_DTYPE, **options), _X, expect=expect)


# Operators in branches: where numbers are not finite, the steps are a Scan, since kernels of the operators lose them.
_guarded = functools.partial(expect_graph, absent=["Loop"], search_functions=True)


def _counts(operator: str, count: int = 1, **others: int) -> dict[str, int]:
    return {operator: count, "If": count, "Scan": count, **others}


cases = [
    _case("lstm", nn.OptimizedLSTMCell, "LSTM"),
    _case("lstm_of_single_gates", nn.LSTMCell, "LSTM"),
    _case("lstm_reversed", nn.OptimizedLSTMCell, "LSTM", reverse=True, keep_order=True),
    _case("lstm_with_carry", nn.OptimizedLSTMCell, "LSTM", return_carry=True),
    _case("gru", nn.GRUCell, "GRU"),
    _case("gru_with_carry", nn.GRUCell, "GRU", return_carry=True),
    Case(
        "simple",
        construct(_trained, _rnn, nn.SimpleCell, **_DTYPE),
        _X,
        expect=expect_graph("Transpose -> RNN", counts={"RNN": 1}, absent=["Scan", "Loop", "If"]),
    ),
    Case(
        "gru_in_a_stack",
        construct(_trained, Stack, **_DTYPE),
        _X,
        expect=_guarded("If -> Squeeze -> ReduceSumSquare -> Less -> If", counts=_counts("GRU", 2)),
    ),
    Case(
        "lstm_in_both_directions",
        construct(_trained, _bidirectional, **_DTYPE),
        _X,
        expect=_guarded("If -> Transpose -> Reshape", counts=_counts("LSTM")),
    ),
    Case(
        "lstm_reversed_twice",
        construct(_trained, _rnn, nn.LSTMCell, reverse=True, **_DTYPE),
        _X,
        expect=expect_graph("Slice -> Transpose", "If -> Squeeze -> Transpose:BxTx4", counts={"If": 1, "Slice": 1}),
    ),
    Case(
        "lstm_time_major",
        construct(_trained, _rnn, nn.LSTMCell, time_major=True, **_DTYPE),
        [("T", "B", 5)],
        expect=_guarded("If -> Squeeze:TxBx4", counts=_counts("LSTM", Transpose=0)),
    ),
    _case("minimal_gated_unit", nn.MGUCell, "GRU"),
]
