"""`nn.RNN` over `LSTMCell`, `OptimizedLSTMCell`, `GRUCell` and `SimpleCell` as "nn.rnn"."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
from jax2onnx_core import Call, Composites
from jax2onnx_lax.dtypes import of_one_float_type
from jax2onnx_lax.nn.recurrent import Cell, Operator

if TYPE_CHECKING:
    import flax.linen as nn

__all__ = ["composites"]

composites = Composites()


@composites.call("flax.linen:RNN.__call__.__wrapped__", name="nn.rnn")
def rnn(
    self: nn.RNN,
    inputs: jax.Array,
    *,
    initial_carry: jax.Array | tuple[jax.Array, jax.Array] | None = None,
    init_key: jax.Array | None = None,
    seq_lengths: jax.Array | None = None,
    return_carry: bool | None = None,
    time_major: bool | None = None,
    reverse: bool | None = None,
    keep_order: bool | None = None,
) -> Call | None:
    arguments = {"return_carry": return_carry, "time_major": time_major, "reverse": reverse, "keep_order": keep_order}
    options = {name: bool(vars(self)[name] if value is None else value) for name, value in arguments.items()}
    cell = _weights(self.cell)
    reorders = options["reverse"] and not options["keep_order"]
    if cell is None or seq_lengths is not None or inputs.ndim != 3 or reorders:
        return None
    start = () if initial_carry is None else initial_carry
    carry = start if isinstance(start, tuple) else (start,)
    if initial_carry is None and (
        self.cell.carry_init is not jax.nn.initializers.zeros or self.cell.param_dtype != inputs.dtype
    ):
        return None
    if not of_one_float_type(inputs, *cell.arrays, *carry, dtype=self.cell.dtype):
        return None
    results = (cell.states if options["return_carry"] else "") + "y"
    return cell.call(inputs, carry, results=results, reverse=options["reverse"], time_major=options["time_major"])


def _weights(cell: nn.RNNCellBase) -> Cell | None:
    """The weights of a cell; None for a cell that no operator of ONNX computes, or that has no weights yet."""
    import flax.linen as nn
    from flax.core import meta

    kind, layers = type(cell), meta.unbox(cell.variables.get("params"))
    known = (nn.SimpleCell, nn.GRUCell, nn.OptimizedLSTMCell, nn.LSTMCell)
    if kind not in known or cell.activation_fn is not jnp.tanh or not layers:
        return None
    if kind is nn.SimpleCell:
        return None if cell.residual else _cell("RNN", "h", layers, "n", ["i"], ["h"], input_biases=["i"])
    if cell.gate_fn is not jax.nn.sigmoid:
        return None
    if kind is nn.GRUCell:
        made = _cell("GRU", "h", layers, "rzn", ["ir", "iz", "in"], ["hr", "hz", "hn"], input_biases=["ir", "iz", "in"])
        bias = layers["hn"]["bias"]
        none = jnp.zeros_like(bias)
        return dataclasses.replace(made, hidden_biases=[none, none, bias], linear_before_reset=True)
    hidden = ["hi", "hf", "hg", "ho"]
    return _cell("LSTM", "ch", layers, "ifgo", ["ii", "if", "ig", "io"], hidden, hidden_biases=hidden)


def _cell(
    operator: Operator,
    states: str,
    layers: Mapping[str, Mapping[str, jax.Array]],
    gates: str,
    of_input: Sequence[str],
    of_hidden: Sequence[str],
    input_biases: Sequence[str] = (),
    hidden_biases: Sequence[str] = (),
) -> Cell:
    def arrays(kind: str, names: Sequence[str]) -> Sequence[jax.Array]:
        return [layers[name][kind] for name in names]

    return Cell(
        operator,
        gates,
        states,
        arrays("kernel", of_input),
        arrays("kernel", of_hidden),
        arrays("bias", input_biases),
        arrays("bias", hidden_biases),
    )
