"""Recognise `Softmax` and `LogSoftmax` in their formulas."""

from __future__ import annotations

__all__ = ["FuseSoftmax", "softmax_operand"]

from jax2onnx_graph._ir import ir
from jax2onnx_graph.facts.values import dims_of
from jax2onnx_graph.forms import Form
from jax2onnx_graph.passes.fusion._row_statistics import RowStatistics
from jax2onnx_graph.passes.structural.eliminate_common_subexpressions import EliminateCommonSubexpressions
from jax2onnx_graph.rewrite.editor import GraphEditor
from jax2onnx_graph.rewrite.pass_base import GraphPass
from jax2onnx_graph.rewrite.patterns import operation


class FuseSoftmax(GraphPass):
    """Where s = x - max(x), over the last axis, or for the first rule another one where the operator is faster:

    1. `Exp(s) / sum(Exp(s))` is `Softmax(x)`.
    2. `s - Log(sum(Exp(s)))` is `LogSoftmax(x)`.

    The target's operator has to give the limit for infinite logits, as the formula does.
    Without the maximum taken off nothing is done: the formula overflows where `Softmax` does not.
    """

    produces = frozenset({"Softmax", "LogSoftmax"})
    after = (EliminateCommonSubexpressions,)

    def rewrite_graph(self, editor: GraphEditor) -> None:
        for node in editor.nodes():
            if node.domain or node.op_type not in ("Div", "Sub"):
                continue
            if node.op_type == "Div":
                op_type, (x, axis) = "Softmax", softmax_operand(node) or (None, -1)
            else:
                op_type, x, axis = "LogSoftmax", _log_softmax(node), -1
            if x is None or not editor.supports(op_type, x) or not editor.guarantees(op_type, x, "inf"):
                continue
            if axis == -1 or _is_faster(editor, x, axis):
                editor.put(node, op_type, [x], {"axis": axis})


def _is_faster(editor: GraphEditor, x: ir.Value, axis: int) -> bool:
    """Whether the target prefers the operator to its formula, over an axis that is not the last."""
    form = Form.SOFTMAX_FIRST_AXIS if axis == -len(dims_of(x) or ()) else Form.SOFTMAX
    return editor.prefers(form, Form.SOFTMAX_BY_FORMULA) is form


def _shifted(value: ir.Value | None, axis: int = -1) -> ir.Value | None:
    """x where `value` is x minus the maximum of its rows."""
    node = operation(value, "Sub")
    x = None if node is None else node.inputs[0]
    if node is None or x is None:
        return None
    return x if RowStatistics(x, axis).reduced(node.inputs[1], "ReduceMax") is x else None


def softmax_operand(node: ir.Node) -> tuple[ir.Value, int] | None:
    """(x, axis from the end) where the quotient `node` is the softmax of x over that axis."""
    exponential = operation(node.inputs[0], "Exp")
    if exponential is None or node.inputs[0] is None:
        return None
    for axis in range(-1, -1 - len(dims_of(node.inputs[0]) or ()), -1):
        if RowStatistics(node.inputs[0], axis).reduced(node.inputs[1], "ReduceSum") is node.inputs[0]:
            x = _shifted(exponential.inputs[0], axis)
            return None if x is None else (x, axis)
    return None


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
