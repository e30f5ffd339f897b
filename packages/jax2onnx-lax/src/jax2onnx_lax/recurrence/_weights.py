"""`Weights`: the weights and biases of a recurrent operator, collected from the gates of a cell."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Iterable, Mapping, Sequence

import numpy as np
from jax2onnx_core import Value
from jax2onnx_graph.arrays import Array

from jax2onnx_lax.recurrence._cell_bodies import CellBody, ScannedTensor
from jax2onnx_lax.recurrence._cells import Cell
from jax2onnx_lax.recurrence._errors import UnsuitableError

__all__ = ["Weights", "weights_of"]


@dataclasses.dataclass(frozen=True)
class Weights:
    """The constants of a recurrent operator with G gates.

    Attributes:
      sequence: the tensor that the operator reads.
      arrays: the weights [1, G · H, I] and [1, G · H, H], and the biases [1, 2 · G · H].
      sources: for each of these, the constants that it was made from.
    """

    sequence: ScannedTensor
    arrays: tuple[Array, Array, Array]
    sources: Sequence[Sequence[Value]]


def weights_of(cell: Cell, body: CellBody) -> Weights:
    """The weights of the operator that computes `cell`.

    Raises:
      UnsuitableError: the gates depend on something else than one input and the hidden state.
    """
    hidden = body.before[cell.states[0]].value
    gates = _matrices(cell, hidden)
    others = {leaf for gate in gates for leaf in gate} - {hidden}
    found = [tensor for key, tensor in body.inputs.items() if key in others]
    if len(found) != 1 or len(others) != 1:
        raise UnsuitableError("the gates depend on something else than one input and the hidden state")
    (sequence,) = found
    w, r = (
        _stacked([gate.get(leaf) for gate in gates], np.zeros((rows, body.width), body.dtype))
        for leaf, rows in ((sequence.key, sequence.width), (hidden, body.width))
    )
    biases = [*(gate.bias for gate in cell.gates), *[np.zeros(body.width)] * len(gates)]
    if cell.inner is not None:
        biases[-1] = cell.inner.bias
    b = np.concatenate([bias.reshape(-1) for bias in biases])[None].astype(body.dtype)
    return Weights(sequence, (w, r, b), _sources(cell, sequence.key, hidden))


def _matrices(cell: Cell, hidden: Hashable) -> list[dict[Hashable, Array]]:
    """The matrices of each gate that multiply the row of the input and the hidden state."""
    gates = [gate.matrices() for gate in cell.gates]
    if cell.gated is not None:
        gates[-1] = _moved(gates[-1], cell.gated, hidden)
    if cell.inner is not None:
        inner = cell.inner.matrices()
        if set(inner) != {hidden} or hidden in gates[-1]:
            raise UnsuitableError("the reset gate multiplies something else than a product of the hidden state")
        gates[-1] = {**gates[-1], **inner}
    return gates


def _moved(gate: Mapping[Hashable, Array], gated: Hashable, hidden: Hashable) -> dict[Hashable, Array]:
    """The matrices of a candidate, with that of r·h instead of that of h."""
    if hidden in gate:
        raise UnsuitableError("the candidate depends on the hidden state with and without the reset gate")
    return {hidden if leaf == gated else leaf: matrix for leaf, matrix in gate.items()}


def _stacked(matrices: Iterable[Array | None], zeros: Array) -> Array:
    """The transposes [H, ·] of matrices [·, H], `zeros` for those that are None, as [1, gates · H, ·]."""
    whole = np.concatenate([zeros if m is None else m for m in matrices], 1)
    return np.ascontiguousarray(whole.T, zeros.dtype)[None]


def _sources(cell: Cell, row: Hashable, hidden: Hashable) -> list[list[Value]]:
    """The constants that each of the weights was made from."""
    parts = [*cell.gates, *([] if cell.inner is None else [cell.inner])]
    leaves = ([row], [hidden, *([] if cell.gated is None else [cell.gated])])
    found = [{weight for part in parts for leaf in group for weight in part.weights(leaf)} for group in leaves]
    found.append({bias for part in parts for bias in part.biases})
    return [sorted(sources, key=lambda value: value.name or "") for sources in found]
