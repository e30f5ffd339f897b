"""The layer operation "nn.rnn", a recurrent cell over a whole sequence, as ONNX's LSTM, GRU or RNN.

A Scan of the cell's own operators takes several times as long, the more the smaller the cell is.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Literal

import jax
import numpy as np
from jax2onnx_core import Call, Context, Rules, Value
from jax2onnx_core.jaxprs import Dims
from jax2onnx_graph.build.builder import Array
from jax2onnx_graph.build.final_names import common_name
from jax2onnx_graph.rewrite.patterns import scalar

from jax2onnx_lax.nn._operands import static_sizes

__all__ = ["Cell", "Operator", "rules"]

rules = Rules()

# The gates in the order in which ONNX wants them: input, output, forget and cell; update, reset and new; new.
_GATES = {"LSTM": "iofg", "GRU": "zrn", "RNN": "n"}

Operator = Literal["LSTM", "GRU", "RNN"]
Activation = Literal["Tanh", "Relu"]


@dataclasses.dataclass(frozen=True)
class Cell:
    """A recurrent cell of a framework, with its weights in the form that "nn.rnn" takes.

    Attributes:
      operator: the kind of cell, by ONNX's name: "LSTM", "GRU" or "RNN".
      gates: the order of the gates in the weights, see "nn.rnn".
      states: the order of the states, see "nn.rnn".
      input_kernels: one array [I, gates · H], or one [I, H] for each gate.
      hidden_kernels: one array [H, gates · H], or one [H, H] for each gate.
      input_biases: one array [gates · H], or one [H] for each gate, or none.
      hidden_biases: likewise.
      linear_before_reset: for a GRU, see "nn.rnn".
      activation: for an RNN, see "nn.rnn".
    """

    operator: Operator
    gates: str
    states: str
    input_kernels: Sequence[jax.Array]
    hidden_kernels: Sequence[jax.Array]
    input_biases: Sequence[jax.Array] = ()
    hidden_biases: Sequence[jax.Array] = ()
    linear_before_reset: bool = False
    activation: Activation = "Tanh"

    @property
    def arrays(self) -> Sequence[jax.Array]:
        """All weights of the cell."""
        return [*self.input_kernels, *self.hidden_kernels, *self.input_biases, *self.hidden_biases]

    def call(self, x: jax.Array, carry: Sequence[jax.Array], *, results: str, reverse: bool, time_major: bool) -> Call:
        """The call of "nn.rnn" for the cell over a sequence.

        Args:
          x: [B, T, I], or [T, B, I] if `time_major`.
          carry: the first states in the order of `states`, each [B, H]; none for zeros.
          results: the results in their order, letters of "yhc", see "nn.rnn".
          reverse: whether the cell begins with the last step.
          time_major: whether time is the first axis of `x` and of the result "y".
        """
        return Call(
            x, self.input_kernels, self.hidden_kernels, self.input_biases, self.hidden_biases, carry,
            operator=self.operator, gates=self.gates, states=self.states, results=results, reverse=reverse,
            time_major=time_major, linear_before_reset=self.linear_before_reset, activation=self.activation,
        )  # fmt: skip


@rules.lower("nn.rnn")
def rnn(
    ctx: Context, x: Value, input_kernels: Sequence[Value], hidden_kernels: Sequence[Value],
    input_biases: Sequence[Value], hidden_biases: Sequence[Value], carry: Sequence[Value], *,
    operator: Operator, gates: str, states: str, results: str, reverse: bool, time_major: bool,
    linear_before_reset: bool = False, activation: Activation = "Tanh",
) -> Value | Sequence[Value]:  # fmt: skip
    """A recurrent cell over a sequence: an LSTM, a GRU, or an RNN, with tanh as activation and sigmoid for the gates.

    Each of the operands for weights is a sequence of arrays: one for all gates, or one for each gate; concatenated along
    their last axis they have the order `gates`.

    Bind to it by `jax2onnx_lax.nn.recurrent.Cell`, which holds the weights and makes the call. A GRU whose update gate
    weighs the new state rather than the old one is one with the signs of that gate's weights changed.

    Declined: weights that are no constants.

    Under vmap: not kept; the cell's own computation is exported then.

    Args:
      ctx: the context of the rule.
      x: the sequence, [B, T, I], or [T, B, I] if `time_major`.
      input_kernels: a sequence of arrays [I, gates · H].
      hidden_kernels: a sequence of arrays [H, gates · H].
      input_biases: a sequence of arrays [gates · H], or an empty one.
      hidden_biases: a sequence of arrays [gates · H], or an empty one.
      carry: the first states in the order of `states`, each [B, H]; or an empty sequence for zeros.
      operator: the kind of cell, by ONNX's name.
      gates: the order of the gates in the weights, letters of "ifgo" (LSTM: input, forget, cell, output), of "rzn"
        (GRU: reset, update, new) or "n" (RNN).
      states: the order of the states in `carry`, letters of "hc" (hidden state, cell state).
      results: the order of the results, letters of "yhc": the hidden states of all steps, the last hidden state, the
        last cell state.
      reverse: whether the cell begins with the last step; "y" has the order of `x` all the same.
      time_major: whether time is the first axis of `x` and of the result "y".
      linear_before_reset: for a GRU, whether the reset gate is multiplied with the product of the hidden state and its
        kernel, rather than with the hidden state.
      activation: the activation of an RNN.

    Returns:
      The results that `results` names: "y" [B, T, H], or [T, B, H] if `time_major`; "h" and "c" [B, H].
    """
    ctx.require(operator, x)
    (hidden,) = static_sizes(ctx, ctx.known_dims(hidden_kernels[0])[:1])
    x = x if time_major else ctx.transpose(x, (1, 0, 2))
    length, batch, _ = ctx.known_dims(x)
    first = [carry[states.index(name)] for name in "hc" if name in states] if carry else []
    initial = [None if _is_zero(ctx, state) else ctx.unsqueeze(state, [0]) for state in first]
    width = len(gates) * hidden

    def ordered(*arrays: Array) -> Array:
        """Concatenate kernels [I, gates · H] or biases [gates · H] to one array [1, ..., gates · H] in ONNX's order of the
        gates; without biases it is zeros.
        """
        split = np.split(np.concatenate(arrays or [np.zeros(width)], -1), len(gates), -1)
        return np.concatenate([split[gates.index(gate)] for gate in _GATES[operator]], -1)[None]

    def folded(function: Callable[..., Array], values: Sequence[Value], dims: Sequence[int]) -> Value:
        result = ctx.fold(function, *values, dims=dims, dtype=ctx.dtype(x), name=common_name(values))
        return ctx.decline("the weights are not constants") if result is None else result

    count = len(input_biases)
    weights = [
        folded(lambda *a: ordered(*a).transpose(0, 2, 1), k, (1, width, *static_sizes(ctx, ctx.known_dims(k[0])[:1])))
        for k in (input_kernels, hidden_kernels)
    ] + [
        folded(
            lambda *a: np.concatenate([ordered(*a[:count]), ordered(*a[count:])], -1),
            (*input_biases, *hidden_biases), (1, 2 * width),
        )
    ]  # fmt: skip
    outputs = ctx.op.several(
        operator, x, *weights, *([None, *initial] if any(initial) else []),
        outputs=1 + len(states), hidden_size=hidden, dims=(length, 1, batch, hidden),
        direction="reverse" if reverse else None, linear_before_reset=1 if linear_before_reset else None,
        activations=None if activation == "Tanh" else [activation],
    )  # fmt: skip
    found = {name: _result(ctx, name, outputs, (batch, hidden), time_major) for name in "ych" if name in results}
    return [found[name] for name in results]


def _result(ctx: Context, name: str, outputs: Sequence[Value], dims: Dims, time_major: bool) -> Value:
    """One of the results "y", "h" and "c", without the axis of directions."""
    if name == "y":
        y = ctx.squeeze(outputs[0], [1])
        return y if time_major else ctx.transpose(y, (1, 0, 2))
    return ctx.squeeze(ctx.with_dims(outputs["yhc".index(name)], (1, *dims)), [0])


def _is_zero(ctx: Context, state: Value) -> bool:
    known = ctx.known(state)
    return scalar(state) == 0 or (known is not None and not known.any())
