"""Cases of `recurrent`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax
from jax.typing import DTypeLike
from jax2onnx_core import Case, Construct, construct, with_dtype
from jax2onnx_lax.nn.flax_layers import guarded, guarded_counts, recurrent_cases

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


def _layer(cell: str, **options: bool) -> Construct:
    return construct(_trained, _rnn, vars(nn)[cell], **_DTYPE, **options)


cases = [
    *recurrent_cases(_layer),
    Case(
        "gru_in_a_stack",
        construct(_trained, Stack, **_DTYPE),
        _X,
        expect=guarded("If -> Squeeze -> ReduceSumSquare -> Less -> If", counts=guarded_counts("GRU", 2)),
    ),
    Case(
        "lstm_in_both_directions",
        construct(_trained, _bidirectional, **_DTYPE),
        _X,
        expect=guarded("If -> Transpose -> Reshape", counts=guarded_counts("LSTM")),
    ),
    Case(
        "minimal_gated_unit",
        _layer("MGUCell"),
        _X,
        expect=guarded("Transpose -> GRU", counts=guarded_counts("GRU")),
    ),
]
