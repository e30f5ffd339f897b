"""Scans in the forms that OpenVINO's reader of ONNX files takes: their bodies read nothing but their own inputs."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import onnx_ir as ir
from jax2onnx_graph.facts.values import dims_of, given_operands
from jax2onnx_graph.rewrite.editor import GraphEditor, labelled
from jax2onnx_graph.rewrite.pass_base import GraphPass
from jax2onnx_graph.rewrite.patterns import copied
from jax2onnx_graph.traversal import values_in, walk

__all__ = ["ClosedScansPass"]

T = ir.DataType
# The plugin has no CumSum of these.
_WITHOUT_SUMS = (T.BOOL, T.INT8, T.UINT8, T.INT16, T.UINT16)


class ClosedScansPass(GraphPass):
    """Pass captured values of the body of a `Scan` as its operands.

    1. What the body gives as it took it, but at another place, is computed: the plugin takes it for a state that does not change.
    2. Each value of an outer graph that the body, or a graph in it, reads becomes a state, which every step hands on as it is.
       Constants may be captured.
    3. A body that reads no row is given zeros, which it subtracts from its first result: otherwise the plugin runs one step.
    4. A state that a step computes of a row is copied, by a sum along an axis of size 1: the plugin may compute it in the memory of
       the row, which it overwrites with the next row before it hands the state on (seen in 2026.4).
    """

    def rewrite_graph(self, editor: GraphEditor) -> None:
        """Apply the rules above to one graph."""
        for node in list(editor.nodes()):
            if node.op_type == "Scan" and not node.domain:
                (body,) = editor.nested_in(node)
                _compute_moved(body)
                _read_rows(editor, node, body)
                _copy_states(node, body)
                captured = _captured(node)
                if captured:
                    _close(editor, node, captured)


def _compute_moved(body: GraphEditor) -> None:
    """Rule 1."""
    inputs, outputs = body.graph.inputs, body.graph.outputs
    for index, output in enumerate(outputs):
        given = copied(output)
        if given in inputs and (index >= len(inputs) or inputs[index] is not given):
            builder = body.after(given)
            zero = builder.constant(0, like=given)
            operator = "Xor" if given.dtype == ir.DataType.BOOL else "Sub"
            outputs[index] = builder.op(operator, given, zero, dims=builder.dims(given))
            body.modified = True


def _read_rows(editor: GraphEditor, node: ir.Node, body: GraphEditor) -> None:
    """Rule 3."""
    graph = body.graph
    first = len(node.inputs) - node.attributes["num_scan_inputs"].as_int()
    output, whole = graph.outputs[0], node.inputs[first]
    if any(row.uses() or row in graph.outputs for row in graph.inputs[first:]) or whole is None or output.dtype is None:
        return
    outside = editor.before(node)
    zero = ir.tensor([0], output.dtype)
    axes = [*node.attributes.get_ints("scan_input_axes", ())]
    rows = axes[0] % len(dims_of(whole) or (0,)) if axes else 0
    size = outside.op.Shape(whole, start=rows, end=rows + 1)
    zeros = outside.op.ConstantOfShape(size, value=zero, dims=labelled((dims_of(whole) or ())[rows : rows + 1]))
    node.replace_input_with(first, zeros)
    if axes:
        node.attributes["scan_input_axes"] = ir.AttrInt64s("scan_input_axes", [0, *axes[1:]])
    row = ir.Value(name=graph.inputs[first].name, type=ir.TensorType(output.dtype), shape=ir.Shape([]))
    graph.inputs[first] = row
    operator = "Xor" if output.dtype == ir.DataType.BOOL else "Sub"
    builder = body.after(output)
    graph.outputs[0] = builder.op(operator, output, row, dims=builder.dims(output))
    body.modified = True


def _copy_states(node: ir.Node, body: GraphEditor) -> None:
    """Rule 4."""
    graph, rows = body.graph, node.attributes["num_scan_inputs"].as_int()
    states = len(graph.inputs) - rows
    for index, output in enumerate(graph.outputs[:states]):
        if output.dtype is None or not _is_made_of(output, set(graph.inputs[states:])):
            continue
        builder = body.after(output)
        dims, first = builder.dims(output), builder.constant([0], np.int64)
        number = builder.cast(output, np.int32) if output.dtype in _WITHOUT_SUMS else output
        row = builder.op.Unsqueeze(number, first, dims=None if dims is None else (1, *dims))
        copy = builder.op.Squeeze(builder.op.CumSum(row, builder.constant(0, np.int64)), first, dims=dims)
        graph.outputs[index] = builder.cast(copy, output.dtype.numpy())
        body.modified = True


def _is_made_of(value: ir.Value, rows: Collection[ir.Value]) -> bool:
    """Whether a value may be computed in the memory of one of the rows, which products of matrices are not."""
    seen, found = set[ir.Value](), [value]
    while found:
        one = found.pop()
        node = one.producer()
        if one in rows:
            return True
        if node is not None and node.op_type not in ("Gemm", "MatMul") and one not in seen:
            seen.add(one)
            found += given_operands(node)
    return False


def _body(node: ir.Node) -> ir.Graph:
    return node.attributes["body"].as_graph()


def _captured(node: ir.Node) -> list[ir.Value]:
    """The values of outer graphs, no constants, that the body of a node reads or gives."""
    body = _body(node)
    own = set(values_in([body, *body.subgraphs()]))
    read = [value for inner in walk(body) for value in inner.inputs if value is not None]
    return [value for value in dict.fromkeys([*read, *body.outputs]) if value not in own and not _is_constant(value)]


def _is_constant(value: ir.Value) -> bool:
    return value.is_initializer() and not value.is_graph_input()


def _close(editor: GraphEditor, node: ir.Node, captured: list[ir.Value]) -> None:
    """Put a Scan with more states in the place of a node."""
    body = _body(node)
    inside = set(walk(body))
    states = []
    for value in captured:
        state = ir.Value(name=editor.value_name(f"{value.name}_inside"), type=value.type, shape=value.shape)
        for user, index in list(value.uses()):
            if user in inside:
                user.replace_input_with(index, state)
        for index, output in enumerate(body.outputs):
            if output is value:
                body.outputs[index] = state
        states.append(state)
    for index, state in enumerate(states):
        body.inputs.insert(index, state)
        body.outputs.insert(index, state)
    closed = ir.Node(
        node.domain, node.op_type, [*captured, *node.inputs], node.attributes.values(), name=node.name,
        num_outputs=len(captured) + len(node.outputs), metadata_props=dict(node.metadata_props),
    )  # fmt: skip
    for value, final in zip(captured, closed.outputs, strict=False):
        final.name, final.type, final.shape = editor.value_name(f"{value.name}_after"), value.type, value.shape
    replaced = closed.outputs[len(captured) :]
    ir.convenience.replace_nodes_and_values(editor.graph, node, [node], [closed], node.outputs, replaced)
    editor.modified = True
