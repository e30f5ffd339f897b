"""Operands of `LSTM`, `GRU` and `RNN`."""

from __future__ import annotations

from collections.abc import Sequence

from jax2onnx_graph._ir import ir
from jax2onnx_graph.facts.dims import Dim, Dims, is_static
from jax2onnx_graph.facts.values import operand
from jax2onnx_graph.rewrite.editor import InsertionPoint

__all__ = ["STATES", "first_states", "sizes", "zeros"]

#: The operands that are the first hidden and the first cell state.
STATES = (5, 6)


def first_states(b: InsertionPoint, node: ir.Node) -> list[ir.Value]:
    """The first states [directions, B, H] of a recurrent operator: zeros where it is given none."""
    given = [operand(node, index) for index in (STATES if node.op_type == "LSTM" else STATES[:1])]
    states = [state for state in given if state is not None]
    if len(states) < len(given):
        x, (_, directions, batch, hidden) = node.inputs[0], b.known_dims(node.outputs[0])
        rows = b.op.Shape(x, start=1, end=2, dims=(1,))
        zero = zeros(b, x, [sizes(b, [directions]), rows, sizes(b, [hidden])], (directions, batch, hidden))
        states = [zero if state is None else state for state in given]
    return states


def sizes(b: InsertionPoint, dims: Sequence[Dim]) -> ir.Value:
    """Numbers of features or directions, which are static, as an int64 vector."""
    return b.ints([dim for dim in dims if is_static(dim)])


def zeros(b: InsertionPoint, like: ir.Value | None, shape: Sequence[ir.Value], dims: Dims) -> ir.Value:
    """Zeros of a shape in parts, of the dtype of `like`."""
    assert like is not None
    return b.op.Expand(b.constant(0, like=like), b.concat(shape, 0), dims=dims)
