"""`hk.static_unroll` as a scan, and unrolled stacks of cells as one scan for each layer: what `jax2onnx-lax` recognises recurrent cells in."""

from __future__ import annotations

from typing import Any

import jax
from jax2onnx_core import Composites, Replacement
from jax2onnx_core.jax_types import PyTree

from jax2onnx_haiku._compat import parameters_are_intercepted

__all__ = ["composites"]

composites = Composites()

#: The outputs of all steps, and the last state.
_Unrolled = tuple[PyTree, PyTree]


@composites.call("haiku:dynamic_unroll", name="haiku.dynamic_unroll")
def dynamic_unroll(
    core: Any,
    input_sequence: PyTree,
    initial_state: PyTree,
    time_major: bool = True,
    reverse: bool = False,
    return_all_states: bool = False,
    unroll: int | bool = 1,
) -> Replacement | None:
    """The layers of a stack one after the other, each over all steps; other cores are scanned as they are."""
    import haiku as hk

    if return_all_states or type(core) is not hk.DeepRNN or not _is_known(core, input_sequence):
        return None
    return Replacement(
        _unrolled(core, input_sequence, initial_state, time_major=bool(time_major), reverse=bool(reverse))
    )


@composites.call("haiku:static_unroll", name="haiku.static_unroll")
def static_unroll(
    core: Any, input_sequence: PyTree, initial_state: PyTree, time_major: bool = True
) -> Replacement | None:
    """A scan instead of the copies of the core for each step."""
    if not _is_known(core, input_sequence) or input_sequence.shape[0 if time_major else 1] == 0:
        return None
    return Replacement(_unrolled(core, input_sequence, initial_state, time_major=bool(time_major), reverse=False))


def _is_known(core: Any, inputs: PyTree) -> bool:
    """Whether operators of ONNX compute `core` (a cell, or a stack of cells, at apply) on `inputs`, which are batches of vectors."""
    import haiku as hk

    if hk.running_init() or parameters_are_intercepted() or not isinstance(inputs, jax.Array):
        return False
    cells = core.layers if type(core) is hk.DeepRNN else [core]
    return all(type(cell) in (hk.LSTM, hk.GRU, hk.VanillaRNN) for cell in cells) and inputs.ndim == 3


def _unrolled(core: Any, x: jax.Array, state: PyTree, *, time_major: bool, reverse: bool) -> _Unrolled:
    """A core over all steps; its cells have no state or random numbers in Haiku's sense.

    Args:
      core: the core.
      x: its inputs, [T, B, I] if `time_major`, else [B, T, I].
      state: its first state.
      time_major: whether time is the first axis of `x` and of the outputs.
      reverse: whether the core begins with the last step.
    """
    import haiku as hk

    is_stack, last = type(core) is hk.DeepRNN, []
    ys = x if time_major else x.swapaxes(0, 1)
    for layer, first in zip(core.layers if is_stack else [core], state if is_stack else [state], strict=True):
        after, ys = jax.lax.scan(lambda before, row, layer=layer: layer(row, before)[::-1], first, ys, reverse=reverse)
        last.append(after)
    return ys if time_major else ys.swapaxes(0, 1), tuple(last) if is_stack else last[0]
