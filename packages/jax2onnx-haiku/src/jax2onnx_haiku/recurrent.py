"""`hk.dynamic_unroll` and `hk.static_unroll` of `hk.LSTM`, `hk.GRU`, `hk.VanillaRNN` and stacks of them as "nn.rnn"."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jax2onnx_core import Call, Composites, Replacement
from jax2onnx_core.jax_types import PyTree
from jax2onnx_lax.dtypes import of_one_float_type
from jax2onnx_lax.nn.recurrent import Cell

from jax2onnx_haiku._compat import parameters_are_intercepted

if TYPE_CHECKING:
    import haiku as hk

__all__ = ["composites", "unroll"]

composites = Composites()

#: The outputs of all steps, and the last state.
_Unrolled = tuple[PyTree, PyTree]


@composites.call("haiku:dynamic_unroll", name="nn.rnn")
def dynamic_unroll(
    core: Any,
    input_sequence: PyTree,
    initial_state: PyTree,
    time_major: bool = True,
    reverse: bool = False,
    return_all_states: bool = False,
    unroll: int | bool = 1,
) -> Replacement | None:
    if return_all_states or not _is_known(core, input_sequence):
        return None
    return Replacement(_unroll_layers(core, input_sequence, initial_state, bool(time_major), bool(reverse)))


@composites.call("haiku:static_unroll", name="nn.rnn")
def static_unroll(
    core: Any, input_sequence: PyTree, initial_state: PyTree, time_major: bool = True
) -> Replacement | None:
    if not _is_known(core, input_sequence) or input_sequence.shape[0 if time_major else 1] == 0:
        return None
    return Replacement(_unroll_layers(core, input_sequence, initial_state, bool(time_major), False))


def _is_known(core: Any, inputs: PyTree) -> bool:
    """Whether operators of ONNX compute `core` (a cell, or a stack of cells, at apply) on `inputs`, which are batches of vectors."""
    import haiku as hk

    if hk.running_init() or parameters_are_intercepted() or not isinstance(inputs, jax.Array):
        return False
    cells = core.layers if type(core) is hk.DeepRNN else [core]
    return all(type(cell) in (hk.LSTM, hk.GRU, hk.VanillaRNN) for cell in cells) and inputs.ndim == 3


def _unroll_layers(core: Any, x: jax.Array, state: PyTree, time_major: bool, reverse: bool) -> _Unrolled:
    """Unroll the layers of a stack one after the other, each over all steps."""
    import haiku as hk

    if type(core) is not hk.DeepRNN:
        return unroll(core, x, state, time_major=time_major, reverse=reverse)
    last = []
    for layer, first in zip(core.layers, state, strict=True):
        x, after = unroll(layer, x, first, time_major=time_major, reverse=reverse)
        last.append(after)
    return x, tuple(last)


def unroll(core: hk.RNNCore, x: jax.Array, state: PyTree, *, time_major: bool, reverse: bool) -> _Unrolled:
    """Unroll a core that has no state or random numbers in Haiku's sense, as `hk.dynamic_unroll` does.

    That function itself sets the state and key of the transformed function, whatever the core is, and so could not be
    traced by itself.

    Args:
      core: the core.
      x: its inputs, [T, B, I] if `time_major`, else [B, T, I].
      state: its first state.
      time_major: whether time is the first axis of `x` and of the outputs.
      reverse: whether the core begins with the last step.

    Returns:
      The outputs of all steps, and the last state.
    """
    xs = x if time_major else x.swapaxes(0, 1)
    last, ys = jax.lax.scan(lambda before, row: core(row, before)[::-1], state, xs, reverse=reverse)
    return ys if time_major else ys.swapaxes(0, 1), last


@composites.call("jax2onnx_haiku.recurrent:unroll", name="nn.rnn")
def unroll_call(core: hk.RNNCore, x: jax.Array, state: PyTree, *, time_major: bool, reverse: bool) -> Call | None:
    cell, carry = _cell(core), jax.tree_util.tree_leaves(state)
    if not of_one_float_type(x, *cell.arrays, *carry) or any(s.ndim != 2 for s in carry):
        return None
    return cell.call(x, carry, results="y" + cell.states, reverse=reverse, time_major=time_major)


def _cell(core: hk.RNNCore) -> Cell:
    import haiku as hk

    named = {name.removeprefix(f"{core.module_name}/"): array for name, array in core.params_dict().items()}
    if isinstance(core, hk.VanillaRNN):
        biases = [named[name] for name in ("linear/b", "linear_1/b") if name in named]
        kernels = [named["linear/w"]], [named["linear_1/w"]]
        return Cell("RNN", "n", "h", *kernels, biases[:1], biases[1:], activation="Relu")
    size = core.hidden_size
    if isinstance(core, hk.LSTM):
        # One kernel for the input and the hidden state; 1 is added to the forget gate.
        kernel, bias = named["linear/w"], named["linear/b"]
        bias = bias + np.repeat([0, 0, 1, 0], size).astype(bias.dtype)
        return Cell("LSTM", "igfo", "hc", [kernel[:-size]], [kernel[-size:]], [bias])
    # The update gate weighs the new state, that of ONNX the old one: 1 - sigmoid(x) is sigmoid(-x).
    signs = np.repeat([-1, 1, 1], size).astype(named["b"].dtype)
    return Cell("GRU", "zrn", "h", [named["w_i"] * signs], [named["w_h"] * signs], [named["b"] * signs])
