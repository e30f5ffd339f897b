"""Recognise `Softmax` and `LogSoftmax` in their formulas."""

from __future__ import annotations

__all__ = ["RecoverSoftmax"]

from jax2onnx_graph._ir import ir
from jax2onnx_graph.passes.recover.row_statistics import RowStatistics
from jax2onnx_graph.rewrite.editor import GraphEditor
from jax2onnx_graph.rewrite.pass_base import GraphPass
from jax2onnx_graph.rewrite.patterns import operation


class RecoverSoftmax(GraphPass):
    """Over the last axis, where s = x - max(x):

    1. `Exp(s) / sum(Exp(s))` is `Softmax(x)`.
    2. `s - Log(sum(Exp(s)))` is `LogSoftmax(x)`.

    The target's operator has to give the limit for infinite logits, as the formula does.
    Without the maximum taken off nothing is done: the formula overflows where `Softmax` does not.
    """

    produces = frozenset({"Softmax", "LogSoftmax"})
    after = ("CommonSubexpressionEliminationPass",)

    def rewrite(self, editor: GraphEditor) -> None:
        for node in editor.nodes():
            if node.domain or node.op_type not in ("Div", "Sub"):
                continue
            if node.op_type == "Div":
                op_type, x = "Softmax", _softmax(node)
            else:
                op_type, x = "LogSoftmax", _log_softmax(node)
            if x is not None and editor.supports(op_type, x) and editor.guarantees(op_type, x, "inf"):
                editor.put(node, op_type, [x], {"axis": -1})


def _shifted(value: ir.Value | None) -> ir.Value | None:
    """x where `value` is x minus the maximum of its rows."""
    node = operation(value, "Sub")
    x = None if node is None else node.inputs[0]
    if node is None or x is None:
        return None
    return x if RowStatistics(x).reduced(node.inputs[1], "ReduceMax") is x else None


def _softmax(node: ir.Node) -> ir.Value | None:
    """x where the quotient `node` is the softmax of x."""
    exponential = operation(node.inputs[0], "Exp")
    if exponential is None or node.inputs[0] is None:
        return None
    if RowStatistics(node.inputs[0]).reduced(node.inputs[1], "ReduceSum") is not node.inputs[0]:
        return None
    return _shifted(exponential.inputs[0])


def _log_softmax(node: ir.Node) -> ir.Value | None:
    """x where the difference `node` is the logarithm of the softmax of x."""
    shifted = node.inputs[0]
    x = _shifted(shifted)
    if shifted is None or x is None:
        return None
    rows = RowStatistics(shifted)
    logarithm = operation(rows.core(node.inputs[1]), "Log")
    summed = None if logarithm is None else rows.reduced(logarithm.inputs[0], "ReduceSum")
    exponential = operation(summed, "Exp")
    return x if exponential is not None and exponential.inputs[0] is shifted else None
