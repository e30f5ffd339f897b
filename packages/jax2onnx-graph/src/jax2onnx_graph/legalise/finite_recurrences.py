"""`FiniteRecurrencesPass`: recurrent operators run on finite numbers only, where their kernels lose others."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce

import numpy as np

from jax2onnx_graph._ir import ir
from jax2onnx_graph.facts.dims import Dim, Dims, is_static
from jax2onnx_graph.facts.values import constant_tensor, dims_of, known, operand
from jax2onnx_graph.legalise._branches import open_graph, put_if, write_results
from jax2onnx_graph.legalise._recurrent import STATES, first_states
from jax2onnx_graph.metadata import is_mended
from jax2onnx_graph.rewrite.editor import GraphEditor, InsertionPoint
from jax2onnx_graph.rewrite.pass_base import GraphPass
from jax2onnx_graph.rewrite.patterns import scalar
from jax2onnx_graph.weights.absent import AbsentTensor

__all__ = ["FiniteRecurrencesPass"]

_GUARDED = "not finite"
_WEIGHTS = (0, 1, 2, 3)  # the sequence among them
#: Gates of kernels are off by up to 1e-7 of 1, which is much of large states. A norm of 10,000 squared.
_LARGE = 1e8
#: Operator → its activations, and the number of its gates.
_ACTIVATIONS: Mapping[str, Sequence[str]] = {
    "LSTM": ("Sigmoid", "Tanh", "Tanh"),
    "GRU": ("Sigmoid", "Tanh"),
    "RNN": ("Tanh",),
}
_GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
_DIRECTIONS = {"forward": [0], "reverse": [1], "bidirectional": [0, 1]}
_KNOWN_ACTIVATIONS = frozenset({"Sigmoid", "Tanh", "Relu"})


class FiniteRecurrencesPass(GraphPass):
    """`LSTM`, `GRU` and `RNN` whose kernels the target does not guarantee "nan" for become
    `If(the operands are finite, the operator, a Scan of its formula)`:

    1. The sequence and the weights are finite if their sum of squares is, and first states are if theirs is less than 1e8: gates of
       kernels are not accurate enough for larger ones. (A sum of squares is NaN where a number is, and infinite where one is.)
    2. Operands that are known are looked at during the export; where all are finite the operator stays. Weights that are not there yet are
       taken to be finite. Known ones that are not are so for every target: kernels leave out their products with a first state of zeros.
    3. The operator is for sequences without steps, too, where there may be such: a Scan takes none.
    4. Operators with lengths of sequences, peepholes, thresholds or the batch first, and those of other activations than
       Sigmoid, Tanh and Relu, stay.
    """

    def rewrite_graph(self, editor: GraphEditor) -> None:
        """Apply the rules above to one graph."""
        for node in list(editor.nodes()):
            if node.op_type in _GATES and not node.domain and self._loses_nan(node) and _is_plain(node):
                is_finite = _is_finite(editor.before(node), node)
                if is_finite is not None:
                    is_finite = _or_without_steps(editor, node, is_finite)
                    put_if(editor, node, is_finite, partial(_results, node=node), runs_where=True, mended=_GUARDED)

    def _loses_nan(self, node: ir.Node) -> bool:
        x = node.inputs[0]
        if x is None or x.dtype is None or is_mended(node, _GUARDED):
            return False
        loses = not self.target.keeps(_measured_name(node), x.dtype.numpy(), "nan")
        return loses or any(_is_below(operand(node, index), np.inf) is False for index in _WEIGHTS[1:])


def _activations(node: ir.Node) -> Sequence[str]:
    """The activations of one direction after another."""
    return node.attributes.get_strings("activations", None) or [*_ACTIVATIONS[node.op_type]] * 2


def _measured_name(node: ir.Node) -> str:
    """The operator, for an RNN with its activation if that is not tanh: "RNN_Relu"."""
    unusual = [name for name in _activations(node) if name != "Tanh"]
    return f"RNN_{unusual[0]}" if node.op_type == "RNN" and unusual else node.op_type


def _is_plain(node: ir.Node) -> bool:
    """Whether the formula of an operator is one that `_Step` has."""
    activations, directions = _activations(node), len(_DIRECTIONS[node.attributes.get_string("direction", "forward")])
    is_one = directions == 1 or activations[: len(activations) // 2] == activations[len(activations) // 2 :]
    given = {i for i, value in enumerate(node.inputs) if value is not None}
    others = {"clip", "input_forget", "layout"} & {
        name for name, attribute in node.attributes.items() if attribute.value
    }
    return (
        given <= {*_WEIGHTS, *STATES}
        and not others
        and is_one
        and _KNOWN_ACTIVATIONS.issuperset(activations)
        and len(dims_of(node.outputs[0]) or ()) == 4
    )


# ----------------------------------------------------------------------------------------------- the condition


def _is_finite(b: InsertionPoint, node: ir.Node) -> ir.Value | None:
    """Whether the operands are numbers that the kernel is right for; None where all are known to be."""
    large = np.inf if node.op_type == "RNN" else _LARGE
    groups = [(_WEIGHTS, np.inf), (STATES, large)]
    told = [_are_below(b, [operand(node, index) for index in indices], limit) for indices, limit in groups]
    conditions = [condition for condition in told if condition is not None]
    return reduce(b.op.And, conditions) if conditions else None


def _or_without_steps(editor: GraphEditor, node: ir.Node, condition: ir.Value) -> ir.Value:
    """The condition, or whether there are no steps, if that may be."""
    b, x, dims = editor.before(node), node.inputs[0], dims_of(node.outputs[0])
    if dims is not None and not editor.may_be_zero(dims[0]):
        return condition
    return b.op.Or(condition, b.op.Equal(b.op.Size(x, dims=()), b.constant(0, np.int64)))


def _are_below(b: InsertionPoint, values: Sequence[ir.Value | None], limit: float) -> ir.Value | None:
    """Whether the sum of squares of some values is less than a limit; None where it is known to be."""
    squares = [_square_sum(b, value) for value in values if value is not None and not _is_below(value, limit)]
    return b.op.Less(reduce(b.op.Add, squares), b.constant(limit, like=squares[0])) if squares else None


def _is_below(value: ir.Value | None, limit: float) -> bool | None:
    """Whether the sum of squares of a value is less than a limit; None where it is not known."""
    if value is None or scalar(value) == 0 or isinstance(constant_tensor(value), AbsentTensor):
        return True
    array = known(value, limit=None)
    return None if array is None else bool(np.square(array.astype(np.float64)).sum() < limit)


def _square_sum(b: InsertionPoint, value: ir.Value) -> ir.Value:
    wide = value if b.dtype(value).itemsize > 2 else b.cast(value, np.float32)
    return b.op.ReduceSumSquare(wide, keepdims=0, dims=())


# ----------------------------------------------------------------------------------------------- the formula


def _results(b: InsertionPoint, editor: GraphEditor, node: ir.Node) -> Sequence[ir.Value]:
    """The results of a recurrent operator, by a Scan of its formula."""
    x, w, r, bias = (operand(node, index) for index in _WEIGHTS)
    length, directions, batch, hidden = b.known_dims(node.outputs[0])
    gates, count = _GATES[node.op_type] * _static(hidden), _static(directions)
    rows, recurrent_bias = b.op.Einsum(x, w, equation="tbi,dgi->tdbg", dims=(length, directions, batch, gates)), None
    if bias is not None:
        both = b.op.Reshape(bias, b.ints([count, 1, -1]), dims=(directions, 1, 2 * gates))
        row_bias, recurrent_bias = _parts(b, both, 2, 2)
        rows = b.op.Add(rows, row_bias, dims=b.dims(rows))
    step = _Step(node, r, recurrent_bias)
    y, *last = _scan(b, editor, step, first_states(b, node), _parts(b, rows, 1, count))
    return [y, *last]


def _scan(
    b: InsertionPoint, editor: GraphEditor, step: _Step, states: Sequence[ir.Value], rows: Sequence[ir.Value]
) -> list[ir.Value]:
    """The hidden states of all steps [T, directions, B, H], then the last states.

    Args:
      b: writes the Scan.
      editor: the graph that it is in.
      step: a step.
      states: the first states [directions, B, H].
      rows: what the gates are of the sequence, [T, 1, B, gates * H] for each direction.
    """
    directions = _DIRECTIONS[step.node.attributes.get_string("direction", "forward")]
    inputs = [_input(editor, "state", state, b.known_dims(state)) for state in states]
    slices = [_input(editor, "gates", row, b.known_dims(row)[1:]) for row in rows]
    one = _input(editor, "y", states[0], (1, *b.known_dims(states[0])[1:]))
    body = open_graph(editor.node_name("step"), [*inputs, *slices], [*inputs, *[one] * len(rows)])
    results = b.op.several(
        "Scan", *states, *rows, outputs=len(states) + len(rows), body=body, num_scan_inputs=len(rows),
        scan_input_directions=directions if any(directions) else None,
        scan_output_directions=directions if any(directions) else None,
    )  # fmt: skip
    for result, state in zip(results, states, strict=False):
        b.set_dims(result, b.known_dims(state))
    for stack, row in zip(results[len(states) :], rows, strict=True):
        b.set_dims(stack, (b.known_dims(row)[0], *b.known_dims(one)))
    (scan,) = {result.producer() for result in results}
    assert scan is not None, "it was just written"
    (nested,) = editor.nested_in(scan)
    write_results(nested, lambda inner, _: step.results(inner, inputs, slices))
    return [_joined(b, results[len(states) :], 1), *results[: len(states)]]


def _input(editor: GraphEditor, name: str, like: ir.Value, dims: Dims) -> ir.Value:
    """An input of a body, of the element type of a value."""
    shape = ir.Shape([dim if isinstance(dim, int | ir.SymbolicDim) else None for dim in dims])
    return ir.Value(name=editor.value_name(name), type=like.type, shape=shape)


def _static(size: Dim) -> int:
    """A size of weights, which is always known."""
    assert is_static(size)
    return size


def _parts(b: InsertionPoint, value: ir.Value, axis: int, count: int) -> Sequence[ir.Value]:
    """Equal parts of a value along an axis whose size is known."""
    if count == 1:
        return [value]
    dims = b.known_dims(value)
    part = [_static(size) // count if i == axis else size for i, size in enumerate(dims)]
    return b.op.several("Split", value, outputs=count, axis=axis, num_outputs=count, dims=part)


def _joined(b: InsertionPoint, values: Sequence[ir.Value], axis: int) -> ir.Value:
    """The parts of both directions, [1, ...] along an axis, as one value."""
    dims = list(b.known_dims(values[0]))
    dims[axis] = len(values)
    return b.with_dims(b.concat(values, axis), dims)


@dataclasses.dataclass(frozen=True)
class _Step:
    """A step of a recurrent operator, for all its directions.

    Attributes:
      node: the operator.
      r: its recurrence weights [directions, gates * H, H].
      bias: their bias [directions, 1, gates * H], if it has one.
    """

    node: ir.Node
    r: ir.Value | None
    bias: ir.Value | None

    def results(self, b: InsertionPoint, states: Sequence[ir.Value], rows: Sequence[ir.Value]) -> list[ir.Value]:
        """The new states, then the hidden one for each direction."""
        x = _joined(b, rows, 0)
        steps: Mapping[str, Callable[..., list[ir.Value]]] = {"LSTM": self._lstm, "GRU": self._gru, "RNN": self._rnn}
        new = steps[self.node.op_type](b, x, *states)
        return [*new, *_parts(b, new[0], 0, len(rows))]

    def _lstm(self, b: InsertionPoint, x: ir.Value, h: ir.Value, c: ir.Value) -> list[ir.Value]:
        i, o, f, g = _parts(b, b.op.Add(x, self._product(b, h)), 2, 4)
        i, o, f = (self._activated(b, 0, gate) for gate in (i, o, f))
        c = b.op.Add(b.op.Mul(f, c), b.op.Mul(i, self._activated(b, 1, g)))
        return [b.op.Mul(o, self._activated(b, 2, c)), c]

    def _gru(self, b: InsertionPoint, x: ir.Value, h: ir.Value) -> list[ir.Value]:
        xs, hs = _parts(b, x, 2, 3), _parts(b, self._product(b, h), 2, 3)
        z, r = (self._activated(b, 0, b.op.Add(xs[k], hs[k])) for k in (0, 1))
        if self.node.attributes.get_int("linear_before_reset", 0):
            recurrent = b.op.Mul(r, hs[2])
        else:
            recurrent = _parts(b, self._product(b, b.op.Mul(r, h)), 2, 3)[2]
        n = self._activated(b, 1, b.op.Add(xs[2], recurrent))
        return [b.op.Add(b.op.Mul(b.op.Sub(b.constant(1, like=z), z), n), b.op.Mul(z, h))]

    def _rnn(self, b: InsertionPoint, x: ir.Value, h: ir.Value) -> list[ir.Value]:
        return [self._activated(b, 0, b.op.Add(x, self._product(b, h)))]

    def _product(self, b: InsertionPoint, h: ir.Value) -> ir.Value:
        """The gates of a hidden state."""
        assert self.r is not None, "the operator requires it"
        dims = (*b.known_dims(h)[:2], b.known_dims(self.r)[1])
        product = b.op.Einsum(h, self.r, equation="dbh,dgh->dbg", dims=dims)
        return product if self.bias is None else b.op.Add(product, self.bias, dims=dims)

    def _activated(self, b: InsertionPoint, index: int, x: ir.Value) -> ir.Value:
        """An activation of the operator, of a value."""
        return b.op(_activations(self.node)[index], x)
