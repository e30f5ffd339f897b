"""Cases of recurrent layers."""

from __future__ import annotations

from collections.abc import Callable

import jax
from flax import nnx
from jax2onnx_core import Case, Construct, construct
from jax2onnx_lax.nn.flax_layers import guarded, guarded_counts, recurrent_cases

from jax2onnx_nnx._trained import OPTIONS

__all__ = ["cases"]


def _pure(cell: str, **options: object) -> Callable[[jax.Array], jax.Array]:
    """A layer as a function: the module itself cannot be called inside a transformation of JAX's."""
    graph, state = nnx.split(_rnn(cell, {}, **options))
    return lambda x: nnx.merge(graph, state, copy=True)(x)


def _rnn(cell: str, options: dict[str, bool], **cell_options: object) -> nnx.RNN:
    return nnx.RNN(vars(nnx)[cell](5, 4, **cell_options), **options)  # type: ignore[arg-type]  # its flags, of all its options


def _bidirectional(cell: str, **cell_options: object) -> nnx.Bidirectional:
    return nnx.Bidirectional(*(_rnn(cell, {}, **cell_options) for _ in range(2)))


def _layer(cell: str, **options: bool) -> Construct:
    return construct(_rnn, cell, options, dtype=OPTIONS["param_dtype"], **OPTIONS)


def _case(name: str, layer: Callable[..., object], cell: str, operator: str, path: str) -> Case:
    expect = guarded(path, counts=guarded_counts(operator))
    return Case(name, construct(layer, cell, **OPTIONS), [("B", "T", 5)], expect=expect)


cases = [
    *recurrent_cases(_layer),
    _case("lstm_of_a_function", _pure, "OptimizedLSTMCell", "LSTM", "Transpose -> LSTM"),
    _case("lstm_bidirectional", _bidirectional, "LSTMCell", "LSTM", "If -> Transpose -> Reshape"),
    _case("gru_bidirectional", _bidirectional, "GRUCell", "GRU", "If -> Transpose -> Reshape"),
]
