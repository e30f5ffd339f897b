"""`EmptyOperandsPass`: operators whose kernels take no empty operands run only where there is something to compute."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from jax2onnx_graph._ir import ir
from jax2onnx_graph.facts.dims import Dim, Dims, is_static
from jax2onnx_graph.facts.values import dims_of
from jax2onnx_graph.metadata import is_mended, note_mended
from jax2onnx_graph.rewrite.editor import GraphEditor, InsertionPoint
from jax2onnx_graph.rewrite.pass_base import GraphPass

__all__ = ["EmptyOperandsPass"]

_GUARDED = "empty operands"
_HIDDEN, _CELL = 5, 6  # operands


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
        if dtype is None or self.target.guarantees(node.op_type, dtype.numpy(), "empty"):
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
    name = node.name or node.op_type
    outputs = [ir.Value(type=value.type, shape=value.shape) for value in node.outputs]
    branches = {"then_branch": _empty_body(editor, node), "else_branch": editor.alone(node)}
    note_mended(branches["else_branch"][0], _GUARDED)
    builder = editor.before(node)
    sizes = [builder.op.Size(value, dims=()) for value in operands]
    product = sizes[0]
    for size in sizes[1:]:
        product = builder.op.Mul(product, size)
    is_empty = builder.op.Equal(product, builder.constant(0, np.int64))
    attributes = [ir.AttrGraph(key, body) for key, body in branches.items()]
    put = ir.Node(
        "", "If", [is_empty], attributes, outputs=outputs, name=name, metadata_props=dict(node.metadata_props)
    )
    editor.insert_before(node, put)
    empty, _ = editor.nested_in(put)
    _write_results(empty, node, operator)
    for old, new in zip(node.outputs, outputs, strict=True):
        editor.replace_value(old, new)
    editor.discard(node)


def _empty_body(editor: GraphEditor, node: ir.Node) -> ir.Graph:
    """A graph of copies of numbers that are yet to be written, one for each result of `node`."""
    name = editor.node_name(f"{node.name or node.op_type}_empty")
    copies = [
        ir.Node("", "Identity", [value], num_outputs=1, name=f"{name}_{i}") for i, value in enumerate(node.outputs)
    ]
    for copy, value in zip(copies, node.outputs, strict=True):
        copy.outputs[0].type, copy.outputs[0].shape = value.type, value.shape
    return ir.Graph([], [copy.outputs[0] for copy in copies], nodes=copies, name=name)


def _write_results(editor: GraphEditor, node: ir.Node, operator: _Operator) -> None:
    """Let the copies in the branch for empty operands copy the results of `node` for these."""
    copies = list(editor.nodes())
    results = operator.results(editor.before(copies[0]), node)
    for copy, result in zip(copies, results, strict=True):
        copy.replace_input_with(0, result)
    editor.finish()


def _attention(b: InsertionPoint, node: ir.Node) -> Sequence[ir.Value]:
    """Zeros of the shape of the query, [B, N, T, H] or [B, T, N * H], with the features of the value."""
    query, (result,) = node.inputs[0], node.outputs
    dims = b.known_dims(result)
    return [_zeros(b, query, [b.op.Shape(query, start=0, end=-1, dims=(len(dims) - 1,)), _sizes(b, dims[-1:])], dims)]


def _recurrence(b: InsertionPoint, node: ir.Node) -> Sequence[ir.Value]:
    """Y [T, directions, B, H], which is empty or of no steps, and the first states [directions, B, H]."""
    x, dims = node.inputs[0], b.known_dims(node.outputs[0])
    _, directions, batch, hidden = dims
    length, rows = (b.op.Shape(x, start=axis, end=axis + 1, dims=(1,)) for axis in (0, 1))
    results = [_zeros(b, x, [length, _sizes(b, [directions]), rows, _sizes(b, [hidden])], dims)]
    for index in (_HIDDEN, _CELL)[: len(node.outputs) - 1]:
        given = node.inputs[index] if index < len(node.inputs) else None
        shape = [_sizes(b, [directions]), rows, _sizes(b, [hidden])]
        results.append(given if given is not None else _zeros(b, x, shape, (directions, batch, hidden)))
    return results


def _sizes(b: InsertionPoint, dims: Sequence[Dim]) -> ir.Value:
    """Numbers of features or directions, which are static, as an int64 vector."""
    return b.ints([dim for dim in dims if is_static(dim)])


def _zeros(b: InsertionPoint, like: ir.Value | None, shape: Sequence[ir.Value], dims: Dims) -> ir.Value:
    """Zeros of a shape in parts, of the dtype of `like`."""
    assert like is not None
    return b.op.Expand(b.constant(0, like=like), b.concat(shape, 0), dims=dims)


_RECURRENCE = _Operator([0], [4], _recurrence)  # with lengths of its sequences
_OPERATORS: Mapping[str, _Operator] = {
    "Attention": _Operator([0, 1], [4, 5, 6], _attention),  # with a past
    "LSTM": _RECURRENCE,
    "GRU": _RECURRENCE,
    "RNN": _RECURRENCE,
}
