"""Recognise `Softmax` and `LogSoftmax` in their primitives."""

from __future__ import annotations

__all__ = ["RecoverSoftmax"]

from jax2onnx_graph._ir import ir
from jax2onnx_graph.passes.recover.row_statistics import Rows
from jax2onnx_graph.rewrite.editor import GraphEditor
from jax2onnx_graph.rewrite.pass_base import GraphPass
from jax2onnx_graph.rewrite.patterns import FLOATS, operation, rewrite_as


class RecoverSoftmax(GraphPass):
    """Over the last axis, where s = x - max(x):

    1. `Exp(s) / sum(Exp(s))` is `Softmax(x)`.
    2. `s - Log(sum(Exp(s)))` is `LogSoftmax(x)`, except in double precision, whose kernel treats
       infinite logits otherwise.

    Without the maximum taken off nothing is done: the formula overflows where `Softmax` does not.
    """

    def rewrite(self, editor: GraphEditor) -> None:
        for node in editor.nodes():
            if node.domain or node.outputs[0].dtype not in FLOATS:
                continue
            if node.op_type == "Div" and (x := _softmax(node)) is not None:
                rewrite_as(editor, node, "Softmax", [x], {"axis": -1})
            elif node.op_type == "Sub" and (x := _log_softmax(node)) is not None:
                rewrite_as(editor, node, "LogSoftmax", [x], {"axis": -1})


def _shifted(value: ir.Value | None) -> ir.Value | None:
    """x where `value` is x minus the maximum of its rows."""
    node = operation(value, "Sub")
    x = None if node is None else node.inputs[0]
    if node is None or x is None:
        return None
    return x if Rows(x).reduced(node.inputs[1], "ReduceMax") is x else None


def _softmax(node: ir.Node) -> ir.Value | None:
    exponential = operation(node.inputs[0], "Exp")
    if exponential is None or node.inputs[0] is None:
        return None
    if Rows(node.inputs[0]).reduced(node.inputs[1], "ReduceSum") is not node.inputs[0]:
        return None
    return _shifted(exponential.inputs[0])


def _log_softmax(node: ir.Node) -> ir.Value | None:
    shifted = node.inputs[0]
    x = _shifted(shifted)
    if shifted is None or x is None or x.dtype == ir.DataType.DOUBLE:
        return None
    rows = Rows(shifted)
    logarithm = operation(rows.core(node.inputs[1]), "Log")
    summed = None if logarithm is None else rows.reduced(logarithm.inputs[0], "ReduceSum")
    exponential = operation(summed, "Exp")
    return x if exponential is not None and exponential.inputs[0] is shifted else None
