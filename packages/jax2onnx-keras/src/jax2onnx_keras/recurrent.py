"""`LSTM`, `GRU`, `SimpleRNN`, and `RNN` over their cells, as "nn.rnn"."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
from jax import lax
from jax2onnx_core import Composites, Replacement, bind_composite
from jax2onnx_lax.nn.recurrent import Cell, Operator

from jax2onnx_keras._layer import array, of_one_type

if TYPE_CHECKING:
    import keras

__all__ = ["composites"]

composites = Composites()


@composites.call("keras.layers:RNN.call", name="nn.rnn")
def rnn(
    self: keras.layers.RNN,
    sequences: jax.Array,
    initial_state: jax.Array | Sequence[jax.Array] | None = None,
    mask: jax.Array | None = None,
    training: bool | None = False,
) -> Replacement | None:
    cell = _cell(self.cell, training=bool(training))
    given = () if initial_state is None else initial_state
    carry = tuple(given) if isinstance(given, list | tuple) else (given,)
    if cell is None or mask is not None or self.stateful or sequences.dtype != self.compute_dtype:
        return None
    if not of_one_type(sequences, *cell.arrays, *carry):
        return None
    y, *last = _steps(self, cell, sequences, carry)
    if self.go_backwards:  # Keras has the steps in the order in which they are computed.
        y = jnp.flip(y, 1)
    output = y if self.return_sequences else last[0]
    return Replacement((output, *last) if self.return_state else output)


def _steps(
    layer: keras.layers.RNN, cell: Cell, sequences: jax.Array, carry: Sequence[jax.Array]
) -> Sequence[jax.Array]:
    """The hidden states of all steps, in the order of `sequences`, and the last states, by "nn.rnn"."""

    def step(states: list[jax.Array], x: jax.Array) -> tuple[list[jax.Array], jax.Array]:
        y, states = layer.cell(x, states)
        return states if isinstance(states, list) else [states], y

    def original() -> Sequence[jax.Array]:
        first = list(carry) or layer.get_initial_state(batch_size=sequences.shape[0])
        last, y = lax.scan(step, first, sequences.swapaxes(0, 1), reverse=layer.go_backwards)
        return y.swapaxes(0, 1), *last

    results = "y" + cell.states
    call = cell.call(sequences, carry, results=results, reverse=layer.go_backwards, time_major=False)
    return bind_composite("nn.rnn", call, original)


def _cell(cell: keras.Layer, *, training: bool) -> Cell | None:
    """The weights of a cell; None for a cell that no operator of ONNX computes."""
    from keras import layers

    kinds: dict[type, tuple[Operator, str, str]] = {
        layers.SimpleRNNCell: ("RNN", "n", "h"),
        layers.GRUCell: ("GRU", "zrn", "h"),
        layers.LSTMCell: ("LSTM", "ifgo", "hc"),
    }
    kind = kinds.get(type(cell))
    if kind is None or not _is_usual(cell) or (training and (cell.dropout or cell.recurrent_dropout)):
        return None
    kernel, recurrent_kernel, bias = array(cell.kernel), array(cell.recurrent_kernel), array(cell.bias)
    if kernel is None or recurrent_kernel is None:
        return None
    resets_after = isinstance(cell, layers.GRUCell) and bool(cell.reset_after)
    biases = [] if bias is None else [bias[0], bias[1]] if resets_after else [bias]
    return Cell(*kind, [kernel], [recurrent_kernel], biases[:1], biases[1:], linear_before_reset=resets_after)


def _is_usual(cell: keras.Layer) -> bool:
    """Whether the activations are those of ONNX's operators."""
    from keras import activations, layers, ops

    if cell.activation not in (activations.tanh, ops.tanh, jnp.tanh):
        return False
    sigmoids = (activations.sigmoid, ops.sigmoid, jax.nn.sigmoid)
    return isinstance(cell, layers.SimpleRNNCell) or cell.recurrent_activation in sigmoids
