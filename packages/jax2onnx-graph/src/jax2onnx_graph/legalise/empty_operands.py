"""`EmptyOperandsPass`: operators whose kernels take no empty operands run only where there is something to compute."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from functools import reduce

import numpy as np

from jax2onnx_graph._ir import ir
from jax2onnx_graph.facts.values import dims_of
from jax2onnx_graph.legalise._branches import put_if
from jax2onnx_graph.legalise._recurrent import first_states, sizes, zeros
from jax2onnx_graph.metadata import is_mended
from jax2onnx_graph.rewrite.editor import GraphEditor, InsertionPoint
from jax2onnx_graph.rewrite.pass_base import GraphPass

__all__ = ["EmptyOperandsPass"]

_GUARDED = "empty operands"


@dataclasses.dataclass(frozen=True)
class _Operator:
    """An operator that is guarded.

    Attributes:
      operands: the indices of the operands that must not be empty.
      unusual: the indices of operands that change its results for empty operands; nodes that have them stay.
      results: writes its results for empty operands, from its node.
    """

    operands: Sequence[int]
    unusual: Sequence[int]
    results: Callable[[InsertionPoint, ir.Node], Sequence[ir.Value]]


class EmptyOperandsPass(GraphPass):
    """An operator on operands that may be empty, whose kernel the target does not guarantee "empty" for, becomes
    `If(an operand is empty, the results for empty operands, the operator)`:

    1. `Attention` without queries gives nothing, and without keys zeros: sums over no values.
    2. `LSTM`, `GRU` and `RNN` of no steps, or of no sequences, give no rows, and their first states as the last.

    Whether a dimension may be 0 is what the lowering notes of the symbols; a number 0 is.
    """

    def rewrite_graph(self, editor: GraphEditor) -> None:
        """Apply the rules above to one graph."""
        for node in list(editor.nodes()):
            operator = _OPERATORS.get(node.op_type)
            if operator is not None and not node.domain and not is_mended(node, _GUARDED):
                self._guard(editor, node, operator)

    def _guard(self, editor: GraphEditor, node: ir.Node, operator: _Operator) -> None:
        operands = [node.inputs[index] for index in operator.operands]
        dtype = operands[0].dtype if operands[0] is not None else None
        if dtype is None or self.target.keeps(node.op_type, dtype.numpy(), "empty"):
            return
        if any(node.inputs[index] is not None for index in operator.unusual if index < len(node.inputs)):
            return
        if not isinstance((dims_of(node.outputs[0]) or (None,))[-1], int):  # a number of features that has to be known
            return
        open_ones = [value for value in operands if value is not None and _may_be_empty(editor, value)]
        if open_ones:
            _put_if(editor, node, operator, open_ones)


def _may_be_empty(editor: GraphEditor, value: ir.Value) -> bool:
    dims = dims_of(value)
    return dims is None or any(map(editor.may_be_zero, dims))


def _put_if(editor: GraphEditor, node: ir.Node, operator: _Operator, operands: Sequence[ir.Value]) -> None:
    """Put the If in the place of `node`."""
    builder = editor.before(node)
    product = reduce(builder.op.Mul, [builder.op.Size(value, dims=()) for value in operands])
    is_empty = builder.op.Equal(product, builder.constant(0, np.int64))
    put_if(editor, node, is_empty, lambda b, _: operator.results(b, node), runs_where=False, mended=_GUARDED)


def _attention(b: InsertionPoint, node: ir.Node) -> Sequence[ir.Value]:
    """Zeros of the shape of the query, [B, N, T, H] or [B, T, N * H], with the features of the value."""
    query, (result,) = node.inputs[0], node.outputs
    dims = b.known_dims(result)
    return [zeros(b, query, [b.op.Shape(query, start=0, end=-1, dims=(len(dims) - 1,)), sizes(b, dims[-1:])], dims)]


def _recurrence(b: InsertionPoint, node: ir.Node) -> Sequence[ir.Value]:
    """Y [T, directions, B, H], which is empty or of no steps, and the first states [directions, B, H]."""
    x, dims = node.inputs[0], b.known_dims(node.outputs[0])
    length, rows = (b.op.Shape(x, start=axis, end=axis + 1, dims=(1,)) for axis in (0, 1))
    return [zeros(b, x, [length, sizes(b, dims[1:2]), rows, sizes(b, dims[3:])], dims), *first_states(b, node)]


_RECURRENCE = _Operator([0], [4], _recurrence)  # with lengths of its sequences
_OPERATORS: Mapping[str, _Operator] = {
    "Attention": _Operator([0, 1], [4, 5, 6], _attention),  # with a past
    "LSTM": _RECURRENCE,
    "GRU": _RECURRENCE,
    "RNN": _RECURRENCE,
}
