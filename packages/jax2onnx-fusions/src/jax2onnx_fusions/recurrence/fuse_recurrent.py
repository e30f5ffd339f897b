"""`FuseRecurrent`: cells written out in a Scan become `LSTM`, `GRU` and `RNN`."""

from __future__ import annotations

__all__ = ["FuseRecurrent"]

import dataclasses
from collections.abc import Sequence

from jax2onnx_graph import ir
from jax2onnx_graph.build.attributes import Attribute
from jax2onnx_graph.facts.dims import Dim
from jax2onnx_graph.facts.values import constant_tensor, dims_of
from jax2onnx_graph.forms import Form
from jax2onnx_graph.passes.structural.fold_transposes import FoldTransposes
from jax2onnx_graph.rewrite.editor import GraphEditor, InsertionPoint, labelled
from jax2onnx_graph.rewrite.pass_base import Declined, NodePass, Phase
from jax2onnx_graph.rewrite.patterns import is_floating, scalar
from jax2onnx_graph.targets import Target

from jax2onnx_fusions._reasons import UnreadableError, no_operator
from jax2onnx_fusions.recurrence._cells import Cell, cells
from jax2onnx_fusions.recurrence._scan_body import ScanBody, ScannedTensor
from jax2onnx_fusions.recurrence._weights import Weights, weights_of

#: Operator → it with its default activations, it with others.
_FORMS = {
    "LSTM": (Form.LSTM, Form.LSTM_OF_OTHER_ACTIVATIONS),
    "GRU": (Form.GRU, Form.GRU_OF_OTHER_ACTIVATIONS),
    "RNN": (Form.RNN, Form.RNN_OF_OTHER_ACTIVATIONS),
}


@dataclasses.dataclass(frozen=True)
class _Recurrence:
    """A Scan whose steps are those of the operator of `cell`, with its weights."""

    cell: Cell
    weights: Weights


class FuseRecurrent(NodePass[_Recurrence]):
    """Fuse a Scan to LSTM, GRU or RNN where the target has the operator and prefers it, if the Scan collects only h and its step is one of

    1. c ← σ(f)·c + σ(i)·tanh(g); h ← σ(o)·tanh(c)            `LSTM`
    2. h ← (1 - σ(z))·tanh(n) + σ(z)·h, where n contains the product of σ(r) with a part affine in h, or a matrix
       product of σ(r)·h            `GRU`
    3. h ← tanh(n)            `RNN`

    Here σ is the logistic function, and i, f, g, o, r, z, n are affine in the step's row of one input and the hidden state h.

    4. The formulas are compared as polynomials in their activations, so that it does not matter how sums and products
       are ordered or multiplied out; 1 - σ(x) is σ(-x).
    5. A tanh may be σ or Relu instead, where the target prefers that.
    6. Matrices may multiply from either side, be joined or apart, and their products may be arranged, split or joined
       in any way; products that are taken out of the loop are followed to their operand.
    7. States may be [B, H], or [H] of a sequence without a batch.

    Of other Scans those are declined that have gates: a `Tanh` or `Sigmoid`, and a product with weights.
    """

    phase = Phase.LAY_OUT
    produces = frozenset({"LSTM", "GRU", "RNN"})
    after = (FoldTransposes,)
    forms = "An LSTM, GRU or RNN"
    operators = frozenset({"Scan"})

    def rewrite_graph(self, editor: GraphEditor) -> None:
        self._transposed: dict[ScannedTensor, ir.Value] = {}
        super().rewrite_graph(editor)

    def match(self, node: ir.Node, editor: GraphEditor) -> _Recurrence | Declined | None:
        try:
            return _recurrence(node, editor)
        except UnreadableError as error:
            return Declined(str(error), node) if _has_gates(node) else None

    def rewrite(self, node: ir.Node, match: _Recurrence, editor: GraphEditor) -> None:
        sequence, weights = match.weights.sequence, match.weights
        if sequence not in self._transposed:
            self._transposed[sequence] = editor.before(node).transpose(sequence.value, sequence.perm)
        pairs = zip(weights.arrays, weights.sources, strict=True)
        constants = [editor.own(ir.Tensor(array), sources) for array, sources in pairs]
        _put_operator(editor, node, match.cell, self._transposed[sequence], constants)


# ----------------------------------------------------------------------------------------------- reading


def _recurrence(scan: ir.Node, editor: GraphEditor) -> _Recurrence:
    """The recurrent operator that the Scan is.

    Raises:
      UnreadableError: it is none; the message says why.
    """
    _check_form(scan)
    body = ScanBody(scan)
    found = list(cells(body))
    if not found:
        raise UnreadableError("its step is not that of an LSTM, GRU or RNN")
    found = [cell for cell in found if all(y == body.after[cell.states[0]] for y in body.collected)]
    if not found:
        raise UnreadableError("it collects something else than the hidden state")
    cell = next((cell for cell in found if _is_preferred(cell, editor.target)), None)
    if cell is None:
        raise UnreadableError("the target prefers the Scan")
    weights = weights_of(cell, body)
    if not editor.supports(cell.op_type, weights.sequence.value):
        raise UnreadableError(no_operator(cell.op_type, weights.sequence.value))
    return _Recurrence(cell, weights)


def _is_preferred(cell: Cell, target: Target) -> bool:
    """Whether the target prefers the operator; one with unusual activations only if it is known to be faster."""
    plain, unusual = _FORMS[cell.op_type]
    if cell.unusual_activations is None:
        return target.prefers(plain, Form.SCAN) is plain
    return target.prefers(Form.SCAN, unusual) is unusual


def _check_form(scan: ir.Node) -> None:
    """Raise UnreadableError unless all directions are the same, all scan axes the first, and all results of one floating-point type."""
    axes = ("scan_input_axes", "scan_output_axes")
    if any(any(scan.attributes.get_ints(name, ())) for name in axes):
        raise UnreadableError("it scans along another axis than the first")
    if len({value.dtype for value in scan.outputs}) != 1 or not is_floating(scan.outputs[0]):
        raise UnreadableError("its results are not of one floating-point type")
    inputs, outputs = _directions(scan)
    if len({*inputs, *outputs}) != 1:
        raise UnreadableError("it scans in both directions at once, or no sequence")


def _directions(scan: ir.Node) -> tuple[Sequence[int], Sequence[int]]:
    """The directions of the scanned inputs and of the collected outputs: 0 forwards, 1 backwards."""
    inputs = scan.attributes["num_scan_inputs"].as_int()
    outputs = len(scan.outputs) - (len(scan.inputs) - inputs)
    names = (("scan_input_directions", inputs), ("scan_output_directions", outputs))
    given = [scan.attributes.get_ints(name, [0] * count) for name, count in names]
    return given[0], given[1]


def _has_gates(scan: ir.Node) -> bool:
    """Whether the body has a Tanh or Sigmoid, and multiplies by a matrix that is constant or from outside."""
    body = scan.attributes["body"].as_graph()
    if not any(node.op_type in ("Tanh", "Sigmoid") and not node.domain for node in body):
        return False
    products = (node for node in body if node.op_type in ("MatMul", "Gemm") and not node.domain)
    return any(_is_from_outside(value, body) for node in products for value in node.inputs[:2])


def _is_from_outside(value: ir.Value | None, body: ir.Graph) -> bool:
    if value is None or value in body.inputs:
        return False
    producer = value.producer()
    return constant_tensor(value) is not None or producer is None or producer.graph is not body


# ----------------------------------------------------------------------------------------------- writing


def _put_operator(editor: GraphEditor, scan: ir.Node, cell: Cell, x: ir.Value, weights: Sequence[ir.Value]) -> None:
    """Put the operator, which reads `x` [T, I] or [T, B, I], and Squeezes of its results instead of the Scan."""
    builder = editor.before(scan)
    is_single = len(builder.known_dims(x)) == 2
    if is_single:
        x = builder.unsqueeze(x, [1])
    hidden = builder.known_dims(weights[1])[-1]
    assert isinstance(hidden, int)
    states = [_initial(builder, scan.inputs[index], is_single) for index in cell.states]
    operands: list[ir.Value | None] = [x, *weights]
    operands += [None, *states] if any(s is not None for s in states) else []
    length, batch, _ = builder.known_dims(x)
    dims: tuple[Dim, ...] = (length, 1, batch, hidden)
    attributes = _attributes(cell, hidden, is_reversed=any(_directions(scan)[0]))
    whole, *last = builder.emit(cell.op_type, operands, "", 1 + len(states), None, dims, attributes)
    for index, state in zip(cell.states, last, strict=True):
        axes = [0, 1] if is_single else [0]
        _replace(editor, scan.outputs[index], builder.with_dims(state, (1, batch, hidden)), axes, builder)
    for output in scan.outputs[len(states) :]:
        _replace(editor, output, whole, [1, 2] if is_single else [1], builder)
    _discard(editor, scan)


def _attributes(cell: Cell, hidden: int, *, is_reversed: bool) -> dict[str, Attribute]:
    """The attributes of the operator of a cell with `hidden` features."""
    activations = cell.unusual_activations
    return {
        "hidden_size": hidden,
        "linear_before_reset": None if cell.inner is None else 1,
        "direction": "reverse" if is_reversed else None,
        "activations": None if activations is None else list(activations),
    }


def _initial(builder: InsertionPoint, state: ir.Value | None, is_single: bool) -> ir.Value | None:
    """A first state [B, H] or [H] as [1, B, H]; None for zeros."""
    return None if state is None or scalar(state) == 0 else builder.unsqueeze(state, [0, 1] if is_single else [0])


def _replace(editor: GraphEditor, old: ir.Value, value: ir.Value, axes: Sequence[int], builder: InsertionPoint) -> None:
    """Let all that reads `old` read `value` without its `axes`."""
    if old.uses() or old.is_graph_output():
        editor.replace_value(old, builder.op.Squeeze(value, builder.ints(axes), dims=labelled(dims_of(old) or ())))


def _discard(editor: GraphEditor, scan: ir.Node) -> None:
    """Discard a Scan, so that nothing in its body counts as a use any more."""
    for node in scan.attributes["body"].as_graph():
        for index in range(len(node.inputs)):
            node.replace_input_with(index, None)
    editor.discard(scan)
