"""`nnx.RNN` over `LSTMCell`, `OptimizedLSTMCell`, `GRUCell` and `SimpleCell` as "nn.rnn"."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeGuard

import jax
import jax.numpy as jnp
import numpy as np
from jax2onnx_core import Call, Composites
from jax2onnx_lax.dtypes import of_one_float_type
from jax2onnx_lax.nn.recurrent import Cell, Operator

if TYPE_CHECKING:
    from flax import nnx

    KnownCell = nnx.SimpleCell | nnx.GRUCell | nnx.OptimizedLSTMCell | nnx.LSTMCell

__all__ = ["composites"]

composites = Composites()


@composites.call("flax.nnx:RNN.__call__", name="nn.rnn")
def rnn(
    self: nnx.RNN,
    inputs: jax.Array,
    *,
    initial_carry: jax.Array | tuple[jax.Array, jax.Array] | None = None,
    seq_lengths: jax.Array | None = None,
    return_carry: bool | None = None,
    time_major: bool | None = None,
    reverse: bool | None = None,
    keep_order: bool | None = None,
    rngs: nnx.Rngs | None = None,
) -> Call | None:
    from flax import nnx

    arguments = {"return_carry": return_carry, "time_major": time_major, "reverse": reverse, "keep_order": keep_order}
    options = {name: bool(vars(self)[name] if value is None else value) for name, value in arguments.items()}
    if not _is_known(self.cell):
        return None
    cell = _weights(self.cell)
    reorders = options["reverse"] and not options["keep_order"]
    if cell is None or seq_lengths is not None or inputs.ndim != 3 or reorders:
        return None
    start = () if initial_carry is None else initial_carry
    carry = start if isinstance(start, tuple) else (start,)
    if not of_one_float_type(inputs, *cell.arrays, *carry, dtype=self.cell.dtype):
        return None
    if np.dtype(self.cell.param_dtype) != inputs.dtype:
        return None
    if initial_carry is None and self.cell.carry_init is not None:
        return None
    results = (cell.states if options["return_carry"] else "") + "y"
    call = cell.call(inputs, carry, results=results, reverse=options["reverse"], time_major=options["time_major"])
    return call.with_arguments(lambda: ((nnx.clone(self), inputs), {"initial_carry": initial_carry, **options}))


def _is_known(cell: nnx.RNNCellBase) -> TypeGuard[KnownCell]:
    from flax import nnx

    return type(cell) in (nnx.SimpleCell, nnx.GRUCell, nnx.OptimizedLSTMCell, nnx.LSTMCell)


def _weights(cell: KnownCell) -> Cell | None:
    """The weights of a cell; None for a cell that no operator of ONNX computes."""
    from flax import nnx

    if cell.activation_fn is not jnp.tanh:
        return None
    if isinstance(cell, nnx.SimpleCell):
        return None if cell.residual else _cell("RNN", "n", "h", [cell.dense_i], [cell.dense_h], [cell.dense_i])
    if cell.gate_fn is not jax.nn.sigmoid:
        return None
    if isinstance(cell, nnx.GRUCell):
        made = _cell("GRU", "rzn", "h", [cell.dense_i], [cell.dense_h], [cell.dense_i])
        return dataclasses.replace(made, linear_before_reset=True)
    if isinstance(cell, nnx.OptimizedLSTMCell):
        return _cell("LSTM", "ifgo", "ch", [cell.dense_i], [cell.dense_h], [cell.dense_h])
    hidden = [cell.hi, cell.hf, cell.hg, cell.ho]
    return _cell("LSTM", "ifgo", "ch", [cell.ii, cell.if_, cell.ig, cell.io], hidden, hidden)


def _cell(
    operator: Operator,
    gates: str,
    states: str,
    of_input: Sequence[nnx.Linear],
    of_hidden: Sequence[nnx.Linear],
    biased: Sequence[nnx.Linear],
) -> Cell:
    """A cell whose layers `biased` have biases, which count as those of the input."""
    kernels = [[layer.kernel[...] for layer in layers] for layers in (of_input, of_hidden)]
    biases = [layer.bias[...] for layer in biased if layer.bias is not None]
    return Cell(operator, gates, states, kernels[0], kernels[1], biases)
