"""`RecurrentNanPass`: NaN that the kernels of recurrent operators lose is put back into their results."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from jax2onnx_graph._ir import ir
from jax2onnx_graph.build.builder import GraphBuilder
from jax2onnx_graph.facts.dims import Dims, is_static
from jax2onnx_graph.facts.values import known
from jax2onnx_graph.metadata import is_mended, note_mended
from jax2onnx_graph.rewrite.editor import GraphEditor, InsertionPoint
from jax2onnx_graph.rewrite.pass_base import GraphPass
from jax2onnx_graph.rewrite.patterns import scalar

__all__ = ["RecurrentNanPass"]

_NAN = "NaN"
_SEQUENCE_LENGTHS, _HIDDEN, _CELL = 4, 5, 6  # operands


class RecurrentNanPass(GraphPass):
    """Put NaN back into the results of `LSTM`, `GRU` and `RNN` whose kernels the target does not guarantee "nan" for.

    1. A NaN in the input of a step makes all units of that step and of those after it NaN, in the same row of the batch.
    2. So does a NaN in the first hidden state, from the first step on, and one in the first cell state, from the second
       step on: in the first step it concerns its own unit alone, where kernels keep it.
    3. The last states are NaN where a step is.

    A sum of squares over the features is NaN exactly where one of them is, whatever infinities there are among them.
    """

    def rewrite_graph(self, editor: GraphEditor) -> None:
        """Apply the rules above to one graph."""
        for node in list(editor.nodes()):
            if node.op_type in ("LSTM", "GRU", "RNN") and not node.domain and self._loses_nan(node):
                _restore(editor, node)
                note_mended(node, _NAN)

    def _loses_nan(self, node: ir.Node) -> bool:
        x = node.inputs[0]
        if x is None or x.dtype is None or _operand(node, _SEQUENCE_LENGTHS) is not None:
            return False
        return not is_mended(node, _NAN) and not self.target.guarantees(_measured_name(node), x.dtype.numpy(), "nan")


def _measured_name(node: ir.Node) -> str:
    """The operator, for an RNN with its activation if that is not tanh: "RNN_Relu"."""
    activations = node.attributes.get_strings("activations", None) or ["Tanh"]
    is_plain = node.op_type != "RNN" or set(activations) == {"Tanh"}
    return node.op_type if is_plain else f"RNN_{next(name for name in activations if name != 'Tanh')}"


def _operand(node: ir.Node, index: int) -> ir.Value | None:
    return node.inputs[index] if index < len(node.inputs) else None


def _restore(editor: GraphEditor, node: ir.Node) -> None:
    """Let the readers of the results read them with NaN."""
    rows, *states = node.outputs
    before = editor.before(node)
    steps = _steps(before, node)
    if _is_read(rows):
        editor.reroute(rows, partial(_with_nan, editor.after(rows, node), before.op.IsNaN(steps)))
    if not any(map(_is_read, states)):
        return
    is_lost = before.op.IsNaN(_last(before, steps))
    for state in filter(_is_read, states):
        editor.reroute(state, partial(_with_nan, editor.after(state, node), is_lost))


def _is_read(value: ir.Value) -> bool:
    return bool(value.uses()) or value.is_graph_output()


def _with_nan(b: GraphBuilder, is_lost: ir.Value, result: ir.Value) -> ir.Value:
    """A result with NaN where it is lost."""
    return b.op.Where(is_lost, b.constant(np.nan, like=result), result, dims=b.dims(result))


def _last(b: GraphBuilder, steps: ir.Value) -> ir.Value:
    """[directions, B, 1] of [T, directions, B, 1]: NaN where a step is."""
    return b.op.ReduceSum(steps, b.ints([0]), keepdims=0, dims=b.known_dims(steps)[1:])


def _steps(b: InsertionPoint, node: ir.Node) -> ir.Value:
    """[T, directions, B, 1]: NaN where all units of a step are NaN, else a number or infinite."""
    direction = node.attributes.get_string("direction", "forward")
    x = node.inputs[0]
    assert x is not None
    length, batch, _ = b.known_dims(x)
    squares = b.op.ReduceSumSquare(x, b.ints([2]), keepdims=1, dims=(length, batch, 1))
    squares = b.op.Unsqueeze(squares, b.ints([1]), dims=(length, 1, batch, 1))
    reversals = {"forward": [0], "reverse": [1], "bidirectional": [0, 1]}[direction]
    seen = [_cumulative(b, squares, reverse) for reverse in reversals]
    dims = (length, len(seen), batch, 1)
    steps = _by_direction(b, seen, dims)
    if (hidden := _squares_of_state(b, _operand(node, _HIDDEN))) is not None:
        steps = b.op.Add(steps, hidden, dims=dims)
    if (cell := _squares_of_state(b, _operand(node, _CELL))) is not None:
        cell = b.op.Where(_first_steps(b, squares, reversals), b.constant(0, like=cell), cell, dims=dims)
        steps = b.op.Add(steps, cell, dims=dims)
    return steps


def _cumulative(b: GraphBuilder, squares: ir.Value, reverse: int) -> ir.Value:
    """The sums of `squares` [T, 1, B, 1] from the step that is computed first on."""
    return b.op.CumSum(squares, b.constant(0, np.int64), reverse=reverse or None, dims=b.dims(squares))


def _squares_of_state(b: GraphBuilder, state: ir.Value | None) -> ir.Value | None:
    """[directions, B, 1] of a first state [directions, B, H]; None for one that is known to have no NaN."""
    array = None if state is None else known(state, limit=None)
    if state is None or scalar(state) == 0 or (array is not None and not np.isnan(array.astype(np.float64)).any()):
        return None
    directions, batch, _ = b.known_dims(state)
    return b.op.ReduceSumSquare(state, b.ints([2]), keepdims=1, dims=(directions, batch, 1))


def _first_steps(b: GraphBuilder, squares: ir.Value, reversals: Sequence[int]) -> ir.Value:
    """[T, directions, 1, 1]: whether a step is the one that is computed first."""
    length = b.known_dims(squares)[0]
    first = b.ints([length]) if is_static(length) else b.op.Shape(squares, start=0, end=1, dims=(1,))
    shape = b.concat([first, b.ints([1, 1, 1])], 0)
    ones = b.op.Expand(b.constant(1, np.float32), shape, dims=(length, 1, 1, 1))
    counted = [_cumulative(b, ones, reverse) for reverse in reversals]
    dims = (length, len(counted), 1, 1)
    return b.op.Equal(_by_direction(b, counted, dims), b.constant(1, np.float32), dims=dims)


def _by_direction(b: GraphBuilder, values: Sequence[ir.Value], dims: Dims) -> ir.Value:
    """The values [T, 1, B, 1] of one or both directions as one of dimensions `dims`."""
    if len(values) == 1:
        return values[0]
    is_forward = b.new_constant(np.array([True, False]).reshape(2, 1, 1))
    return b.op.Where(is_forward, *values, dims=dims)
