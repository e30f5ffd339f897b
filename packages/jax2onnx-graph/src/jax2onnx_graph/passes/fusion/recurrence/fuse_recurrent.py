"""Recognise `LSTM`, `GRU` and `RNN` in a Scan."""

from __future__ import annotations

__all__ = ["FuseRecurrent"]

from collections.abc import Hashable, Iterable, Mapping, Sequence

import numpy as np

from jax2onnx_graph._ir import ir
from jax2onnx_graph.arrays import Array
from jax2onnx_graph.build.attributes import Attribute
from jax2onnx_graph.build.origins import share_origins
from jax2onnx_graph.facts.values import dims_of
from jax2onnx_graph.forms import Form
from jax2onnx_graph.passes.fusion.fuse_relu import FuseRelu
from jax2onnx_graph.passes.fusion.fuse_silu import FuseSilu
from jax2onnx_graph.passes.fusion.recurrence._affine import UnreadableError
from jax2onnx_graph.passes.fusion.recurrence._cells import Cell, cells
from jax2onnx_graph.passes.fusion.recurrence._step import Input, Step
from jax2onnx_graph.passes.structural.fold_transposes import FoldTransposes
from jax2onnx_graph.rewrite.editor import GraphEditor, InsertionPoint, labelled
from jax2onnx_graph.rewrite.pass_base import GraphPass
from jax2onnx_graph.rewrite.patterns import is_floating, scalar
from jax2onnx_graph.targets import Target

#: Operator → it with its default activations, it with others.
_FORMS = {
    "LSTM": (Form.LSTM, Form.LSTM_OF_OTHER_ACTIVATIONS),
    "GRU": (Form.GRU, Form.GRU_OF_OTHER_ACTIVATIONS),
    "RNN": (Form.RNN, Form.RNN_OF_OTHER_ACTIVATIONS),
}


class FuseRecurrent(GraphPass):
    """With σ the logistic function and i, f, g, o, r, z, n affine in the step's row of one input and the hidden state h,
    a Scan whose step is one of

    1. c ← σ(f)·c + σ(i)·tanh(g); h ← σ(o)·tanh(c)            `LSTM`
    2. h ← (1 - σ(z))·tanh(n) + σ(z)·h, where n contains the product of σ(r) with a part affine in h, or a matrix
       product of σ(r)·h            `GRU`
    3. h ← tanh(n)            `RNN`

    and that collects nothing but h, is that operator where the target has it, and prefers it to the Scan.

    4. The formulas are compared as polynomials in their activations, so that it does not matter how sums and products
       are ordered or multiplied out; 1 - σ(x) is σ(-x).
    5. A tanh may be σ or Relu instead, where the target prefers that.
    6. Matrices may multiply from either side, be joined or apart, and what they give may be arranged, split or joined
       in any way; products that are taken out of the loop are followed to their operand.
    7. States may be [B, H], or [H] of a sequence without a batch.
    """

    produces = frozenset({"LSTM", "GRU", "RNN"})
    after = (FuseSilu, FuseRelu, FoldTransposes)

    def rewrite_graph(self, editor: GraphEditor) -> None:
        inputs: dict[Input, ir.Value] = {}
        for node in editor.nodes():
            if node.op_type == "Scan" and not node.domain and _is_plain(node):
                try:
                    _recover(editor, node, inputs)
                except UnreadableError:
                    continue


def _recover(editor: GraphEditor, scan: ir.Node, inputs: dict[Input, ir.Value]) -> None:
    """Put the operator that a Scan is in its place; `inputs` are tensors that were transposed for Scans before it.

    Raises:
      UnreadableError: it is none.
    """
    step = Step(scan)
    for cell in cells(step):
        if all(y == step.after[cell.states[0]] for y in step.collected) and _is_preferred(cell, editor.target):
            tensor, *weights = _weights(cell, step)
            if editor.supports(cell.op_type, tensor.value):
                if tensor not in inputs:
                    inputs[tensor] = editor.before(scan).transpose(tensor.value, tensor.perm)
                sources = _sources(cell, tensor.key, step.before[cell.states[0]].value)
                constants = [editor.own(ir.Tensor(w), made) for w, made in zip(weights, sources, strict=True)]
                _rewrite(editor, scan, cell, inputs[tensor], constants)
            return


def _is_preferred(cell: Cell, target: Target) -> bool:
    """Whether the target prefers the operator; one with unusual activations only if it is known to be faster."""
    plain, unusual = _FORMS[cell.op_type]
    if cell.unusual_activations is None:
        return target.prefers(plain, Form.SCAN) is plain
    return target.prefers(Form.SCAN, unusual) is unusual


def _is_plain(scan: ir.Node) -> bool:
    """Whether all directions are the same, all scan axes the first, and all results of one floating-point type."""
    axes = ("scan_input_axes", "scan_output_axes")
    if any(any(scan.attributes.get_ints(name, ())) for name in axes):
        return False
    inputs, outputs = _directions(scan)
    return len({*inputs, *outputs}) == 1 == len({v.dtype for v in scan.outputs}) and is_floating(scan.outputs[0])


def _directions(scan: ir.Node) -> tuple[Sequence[int], Sequence[int]]:
    """The directions of the scanned inputs and of the collected outputs: 0 forwards, 1 backwards."""
    inputs = scan.attributes["num_scan_inputs"].as_int()
    outputs = len(scan.outputs) - (len(scan.inputs) - inputs)
    names = (("scan_input_directions", inputs), ("scan_output_directions", outputs))
    given = [scan.attributes.get_ints(name, [0] * count) for name, count in names]
    return given[0], given[1]


def _weights(cell: Cell, step: Step) -> tuple[Input, Array, Array, Array]:
    """What the operator reads, its weights [1, G · H, I] and [1, G · H, H] and biases [1, 2 · G · H], of G gates.

    Raises:
      UnreadableError: the gates depend on something else than one input and the hidden state.
    """
    hidden = step.before[cell.states[0]].value
    gates = [gate.matrices() for gate in cell.gates]
    if cell.gated is not None:
        gates[-1] = _moved(gates[-1], cell.gated, hidden)
    if cell.inner is not None:
        inner = cell.inner.matrices()
        if set(inner) != {hidden} or hidden in gates[-1]:
            raise UnreadableError("the reset gate multiplies something else than a product of the hidden state")
        gates[-1] = {**gates[-1], **inner}
    others = {leaf for gate in gates for leaf in gate} - {hidden}
    found = [tensor for key, tensor in step.inputs.items() if key in others]
    if len(found) != 1 or len(others) != 1 or found[0].value.dtype is None:
        raise UnreadableError("the gates depend on something else than one input and the hidden state")
    (tensor,), dtype = found, found[0].value.dtype.numpy()
    width = (dims_of(tensor.value) or ())[tensor.perm[-1]]
    assert isinstance(width, int)
    w, r = (
        _stacked([gate.get(leaf) for gate in gates], np.zeros((rows, step.width), dtype))
        for leaf, rows in ((tensor.key, width), (hidden, step.width))
    )
    biases = [*(gate.bias for gate in cell.gates), *[np.zeros(step.width)] * len(gates)]
    if cell.inner is not None:
        biases[-1] = cell.inner.bias
    return tensor, w, r, np.concatenate([bias.reshape(-1) for bias in biases])[None].astype(dtype)


def _sources(cell: Cell, row: Hashable, hidden: Hashable) -> list[list[ir.Value]]:
    """The constants that each of the weights was made from."""
    parts = [*cell.gates, *([] if cell.inner is None else [cell.inner])]
    leaves = ([row], [hidden, *([] if cell.gated is None else [cell.gated])])
    found = [{weight for part in parts for leaf in group for weight in part.weights(leaf)} for group in leaves]
    found.append({bias for part in parts for bias in part.biases})
    return [sorted(sources, key=lambda value: value.name or "") for sources in found]


def _moved(gate: Mapping[Hashable, Array], gated: Hashable, hidden: Hashable) -> dict[Hashable, Array]:
    """The matrices of a candidate with that of r·h in the place of that of h."""
    if hidden in gate:
        raise UnreadableError("the candidate depends on the hidden state with and without the reset gate")
    return {hidden if leaf == gated else leaf: matrix for leaf, matrix in gate.items()}


def _stacked(matrices: Iterable[Array | None], zeros: Array) -> Array:
    """The transposes [H, ·] of matrices [·, H], `zeros` for those that are None, as [1, gates · H, ·]."""
    whole = np.concatenate([zeros if m is None else m for m in matrices], 1)
    return np.ascontiguousarray(whole.T, zeros.dtype)[None]


def _rewrite(editor: GraphEditor, scan: ir.Node, cell: Cell, x: ir.Value, weights: Sequence[ir.Value]) -> None:
    """Put the operator, which reads `x` [T, I] or [T, B, I], and Squeezes of its results, in the place of the Scan."""
    builder = editor.before(scan)
    is_single = len(builder.known_dims(x)) == 2
    if is_single:
        x = builder.unsqueeze(x, [1])
    length, batch, _ = builder.known_dims(x)
    hidden = builder.known_dims(weights[1])[-1]
    assert isinstance(hidden, int)
    states = [_initial(builder, scan.inputs[place], is_single) for place in cell.states]
    operands: list[ir.Value | None] = [x, *weights]
    operands += [None, *states] if any(s is not None for s in states) else []
    attributes: dict[str, Attribute] = {"hidden_size": hidden}
    if cell.inner is not None:
        attributes["linear_before_reset"] = 1
    if any(_directions(scan)[0]):
        attributes["direction"] = "reverse"
    if cell.unusual_activations is not None:
        attributes["activations"] = list(cell.unusual_activations)
    whole, *last = builder.emit(
        cell.op_type, operands, "", 1 + len(states), None, (length, 1, batch, hidden), attributes
    )
    for place, state in zip(cell.states, last, strict=True):
        axes = [0, 1] if is_single else [0]
        _replace(editor, scan.outputs[place], builder.with_dims(state, (1, batch, hidden)), axes, builder)
    for output in scan.outputs[len(states) :]:
        _replace(editor, output, whole, [1, 2] if is_single else [1], builder)
    _discard(editor, scan)


def _initial(builder: InsertionPoint, state: ir.Value | None, is_single: bool) -> ir.Value | None:
    """A first state [B, H] or [H] as [1, B, H]; None for zeros."""
    return None if state is None or scalar(state) == 0 else builder.unsqueeze(state, [0, 1] if is_single else [0])


def _replace(editor: GraphEditor, old: ir.Value, value: ir.Value, axes: Sequence[int], builder: InsertionPoint) -> None:
    """Let `value` without its `axes` take the place of `old`, if anything reads that."""
    if not old.uses() and not old.is_graph_output():
        return
    new = builder.op.Squeeze(value, builder.ints(axes), dims=labelled(dims_of(old) or ()))
    for user, index in old.uses():
        user.replace_input_with(index, new)
    share_origins(old, new)
    if old.is_graph_output():
        editor.hand_over_output(old, new)


def _discard(editor: GraphEditor, scan: ir.Node) -> None:
    """Discard a Scan, so that nothing in its body counts as a use any more."""
    for node in scan.attributes["body"].as_graph():
        for index in range(len(node.inputs)):
            node.replace_input_with(index, None)
    editor.discard(scan)
