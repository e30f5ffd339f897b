"""LSTMs that run in a branch of an `If`, where the quantizer of ONNX Runtime does not look for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx_ir as ir
from jax2onnx_graph.facts.values import dims_of
from jax2onnx_graph.rewrite.editor import GraphEditor, InsertionPoint
from jax2onnx_graph.rewrite.pass_base import GraphPass

__all__ = ["LiftedRecurrencesPass", "LoweredRecurrencesPass"]

_QUANTISED = "DynamicQuantizeLSTM"
_WEIGHTS, _SCALES = (1, 2), (8, 10)  # operands of it: [directions, I, gates * H], and [directions, gates * H]


class LiftedRecurrencesPass(GraphPass):
    """`If(finite, LSTM, steps)` as `If(finite, its results, steps)`, with the LSTM before it."""

    def rewrite_graph(self, editor: GraphEditor) -> None:
        """Apply the rule above to one graph."""
        for node in list(editor.nodes()):
            branch = _first_branch(node)
            nodes = [] if branch is None else list(branch)
            if branch is not None and len(nodes) == 1 and nodes[0].op_type == "LSTM":
                copies = [ir.Node("", "Identity", [value], num_outputs=1) for value in branch.outputs]
                for i, copy in enumerate(copies):
                    old, new = branch.outputs[i], copy.outputs[0]
                    new.type, new.shape, branch.outputs[i] = old.type, old.shape, new
                branch.remove(nodes)
                branch.extend(copies)
                editor.insert_before(node, nodes[0])


class LoweredRecurrencesPass(GraphPass):
    """Undo `LiftedRecurrencesPass`, behind the quantizer: the steps read the quantised weights, so that no others are kept."""

    def rewrite_graph(self, editor: GraphEditor) -> None:
        """Apply the rule above to one graph."""
        for node in list(editor.nodes()):
            branch = _first_branch(node)
            made = set() if branch is None else {copy.inputs[0].producer() for copy in branch if copy.inputs[0]}
            (lstm,) = made if len(made) == 1 else (None,)
            if branch is not None and lstm is not None and lstm.op_type in ("LSTM", _QUANTISED):
                _lower(editor, branch, lstm)
                if lstm.op_type == _QUANTISED:
                    steps = next(nested for nested in editor.nested_in(node) if nested.graph is not branch)
                    _read_quantised(steps, lstm)


def _first_branch(node: ir.Node) -> ir.Graph | None:
    return node.attributes["then_branch"].as_graph() if node.op_type == "If" and not node.domain else None


def _lower(editor: GraphEditor, branch: ir.Graph, lstm: ir.Node) -> None:
    """Put an operator into the branch that copies its results."""
    copies = list(branch)
    sources = [copy.inputs[0] for copy in copies]
    for i, source in enumerate(sources):
        assert source is not None, "a copy has an operand"
        source.type, source.shape = branch.outputs[i].type, branch.outputs[i].shape
        branch.outputs[i] = source
    branch.remove(copies, safe=True)
    editor.graph.remove(lstm)
    branch.append(lstm)
    editor.modified = True


def _read_quantised(editor: GraphEditor, lstm: ir.Node) -> None:
    """Let the steps read the weights that a quantised operator reads."""
    first = next(editor.nodes())
    b = editor.before(first)
    weights: dict[str, ir.Value] = {}
    for index, scale in zip(_WEIGHTS, _SCALES, strict=True):
        weight = lstm.inputs[index]
        assert weight is not None, "the operator requires it"
        weights[(weight.name or "").removesuffix("_quantized")] = _dequantised(b, weight, lstm.inputs[scale])
    _replace(editor.graph, weights)


def _dequantised(b: InsertionPoint, weight: ir.Value, scale: ir.Value | None) -> ir.Value:
    """The numbers [directions, gates * H, I] of a weight in integers, whose zero is 0.

    Scales are a vector for DequantizeLinear, which the runtime computes at each call: that no other weights are in memory.
    """
    directions, width, gates = (size for size in dims_of(weight) or () if isinstance(size, int))
    columns = b.op.Reshape(b.op.Transpose(weight, perm=[1, 0, 2]), b.ints([width, directions * gates]))
    numbers = b.op.DequantizeLinear(columns, b.op.Reshape(scale, b.ints([-1])), axis=1)
    return b.op.Transpose(b.op.Reshape(numbers, b.ints([width, directions, gates])), perm=[1, 2, 0])


def _replace(graph: ir.Graph, weights: Mapping[str, ir.Value]) -> None:
    """Read values in the place of those of these names, in a graph and in those nested in it."""
    for node in graph.all_nodes():
        inputs: Sequence[ir.Value | None] = node.inputs
        for i, value in enumerate(inputs):
            if value is not None and (value.name or "") in weights:
                node.replace_input_with(i, weights[value.name or ""])
