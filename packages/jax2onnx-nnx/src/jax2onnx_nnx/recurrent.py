"""`nnx.RNN` over `LSTMCell`, `OptimizedLSTMCell`, `GRUCell` and `SimpleCell` as "nn.rnn"."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jax2onnx_core import Call, Composites
from jax2onnx_lax.dtypes import is_float_array

from jax2onnx_nnx.layer import parameter

if TYPE_CHECKING:
    from flax import nnx

__all__ = ["composites"]

composites = Composites()

Arrays = Sequence["jax.Array | None"]


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
    cell = _weights(self.cell)
    reorders = options["reverse"] and not options["keep_order"]
    if cell is None or seq_lengths is not None or inputs.ndim != 3 or reorders:
        return None
    start = () if initial_carry is None else initial_carry
    carry = start if isinstance(start, tuple) else (start,)
    if not _one_type(self.cell, inputs, *cell.arrays, *carry):
        return None
    if initial_carry is None and self.cell.carry_init is not None:
        return None
    call = Call(
        inputs,
        cell.input_kernels,
        cell.hidden_kernels,
        cell.biases,
        (),
        carry,
        operator=cell.operator,
        gates=cell.gates,
        states=cell.states,
        results=(cell.states if options["return_carry"] else "") + "y",
        reverse=options["reverse"],
        time_major=options["time_major"],
        linear_before_reset=cell.operator == "GRU",
    )
    return call.with_arguments(lambda: ((nnx.clone(self), inputs), {"initial_carry": initial_carry, **options}))


def _one_type(cell: nnx.RNNCellBase, *arrays: jax.Array | None) -> bool:
    present = [x for x in arrays if x is not None]
    dtypes = {x.dtype for x in present} | ({np.dtype(cell.dtype)} if cell.dtype is not None else set())
    return is_float_array(*present) and len(dtypes) == 1 and np.dtype(cell.param_dtype) in dtypes


@dataclasses.dataclass(frozen=True)
class _Cell:
    """A cell as "nn.rnn" takes it: the weights gate by gate or joined, and the bias of the input alone."""

    operator: str
    gates: str
    states: str
    input_kernels: Arrays
    hidden_kernels: Arrays
    biases: Arrays

    @property
    def arrays(self) -> Arrays:
        return [*self.input_kernels, *self.hidden_kernels, *self.biases]


def _weights(cell: nnx.RNNCellBase) -> _Cell | None:
    """The weights of a cell; None for one that is none of ONNX's."""
    from flax import nnx

    kind = type(cell)
    known = (nnx.SimpleCell, nnx.GRUCell, nnx.OptimizedLSTMCell, nnx.LSTMCell)
    if kind not in known or cell.activation_fn is not jnp.tanh:
        return None
    if kind is nnx.SimpleCell:
        return None if cell.residual else _cell("RNN", "n", "h", [cell.dense_i], [cell.dense_h], [cell.dense_i])
    if cell.gate_fn is not jax.nn.sigmoid:
        return None
    if kind is nnx.GRUCell:
        return _cell("GRU", "rzn", "h", [cell.dense_i], [cell.dense_h], [cell.dense_i])
    if kind is nnx.OptimizedLSTMCell:
        return _cell("LSTM", "ifgo", "ch", [cell.dense_i], [cell.dense_h], [cell.dense_h])
    hidden = [cell.hi, cell.hf, cell.hg, cell.ho]
    return _cell("LSTM", "ifgo", "ch", [cell.ii, cell.if_, cell.ig, cell.io], hidden, hidden)


def _cell(
    operator: str,
    gates: str,
    states: str,
    of_input: Sequence[nnx.Linear],
    of_hidden: Sequence[nnx.Linear],
    biased: Sequence[nnx.Linear],
) -> _Cell:
    kernels = [[parameter(layer.kernel) for layer in layers] for layers in (of_input, of_hidden)]
    return _Cell(operator, gates, states, kernels[0], kernels[1], [parameter(layer.bias) for layer in biased])
