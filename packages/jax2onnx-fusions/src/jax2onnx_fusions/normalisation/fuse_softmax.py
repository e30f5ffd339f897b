"""`FuseSoftmax`: formulas of softmax and of its logarithm become `Softmax` and `LogSoftmax`."""

from __future__ import annotations

__all__ = ["FuseSoftmax", "softmax_operand"]

import dataclasses
from typing import Literal

import numpy as np
from jax2onnx_graph import ir
from jax2onnx_graph.facts.values import dims_of
from jax2onnx_graph.forms import Form
from jax2onnx_graph.rewrite.editor import GraphEditor
from jax2onnx_graph.rewrite.pass_base import Declined, NodePass, Phase
from jax2onnx_graph.rewrite.patterns import operation, scalar

from jax2onnx_fusions._reasons import no_operator
from jax2onnx_fusions.normalisation._row_statistics import RowStatistics

_OVERFLOWS = "the maximum is not taken off, so that the formula overflows where the operator does not"


@dataclasses.dataclass(frozen=True)
class _Softmax:
    """The operator `op_type` of `x` over `axis`, counted from the end."""

    op_type: Literal["Softmax", "LogSoftmax"]
    x: ir.Value
    axis: int


class FuseSoftmax(NodePass[_Softmax]):
    """Fuse the formulas of softmax, where s = x - max(x) over the last axis, or for rule 1 another one where the operator is faster.

    1. `Exp(s) / sum(Exp(s))` is `Softmax(x)`.
    2. So is `Exp(s) / sum(Where(m, Exp(s), 0))` where x is `Where(m, ·, -inf)` (`jax.nn.softmax` with `where`): what the sum leaves
       out is 0, or NaN in a row that is NaN.
    3. `Softmax(s)` is `Softmax(x)`, which takes the maximum off again.
    4. `s - Log(sum(Exp(s)))` is `LogSoftmax(x)`.

    The target's operator has to give the limit for infinite logits, as the formula does.
    Without the maximum taken off nothing is done: the formula overflows where `Softmax` does not.
    """

    phase = Phase.FUSE
    produces = frozenset({"Softmax", "LogSoftmax"})
    operators = frozenset({"Div", "Sub", "Softmax"})

    def match(self, node: ir.Node, editor: GraphEditor) -> _Softmax | Declined | None:
        found = _FORMULAS[node.op_type](node)
        if not isinstance(found, _Softmax):
            return found
        op_type, x = found.op_type, found.x
        if not editor.supports(op_type, x):
            return Declined(no_operator(op_type, x), node)
        if not editor.guarantees(op_type, x, "inf"):
            return Declined(f"the target's {op_type} does not give the limit for infinite logits", node)
        if node.op_type == "Div" and found.axis != -1 and not _is_faster(editor, x, found.axis):
            return Declined("the target prefers the formula over an axis that is not the last", node)
        return found

    def rewrite(self, node: ir.Node, match: _Softmax, editor: GraphEditor) -> None:
        editor.put(node, match.op_type, [match.x], {"axis": match.axis})


def _is_faster(editor: GraphEditor, x: ir.Value, axis: int) -> bool:
    """Whether the target prefers the operator to its formula, over an axis that is not the last."""
    form = Form.SOFTMAX_FIRST_AXIS if axis == -len(dims_of(x) or ()) else Form.SOFTMAX
    return editor.prefers(form, Form.SOFTMAX_BY_FORMULA) is form


def softmax_operand(node: ir.Node) -> tuple[ir.Value, int] | None:
    """(x, axis from the end) where the quotient `node` is the softmax of x over that axis."""
    axis = _axis_of_quotient(node)
    if axis is None:
        return None
    exponential = operation(node.inputs[0], "Exp")
    x = None if exponential is None else _shifted(exponential.inputs[0], axis)
    return None if x is None else (x, axis)


def _softmax_of_shifted(node: ir.Node) -> _Softmax | None:
    """The softmax `node` of x minus its maximum as that of x."""
    axis, rank = node.attributes.get_int("axis", -1), len(dims_of(node.outputs[0]) or ())
    axis = axis - rank if axis >= 0 else axis
    x = _shifted(node.inputs[0], axis)
    return None if x is None else _Softmax("Softmax", x, axis)


def _softmax(node: ir.Node) -> _Softmax | Declined | None:
    """The softmax that the quotient `node` is."""
    found = softmax_operand(node)
    if found is not None:
        return _Softmax("Softmax", *found)
    if _axis_of_quotient(node) is None:
        return None
    return Declined(_OVERFLOWS, node)


def _axis_of_quotient(node: ir.Node) -> int | None:
    """The axis, counted from the end, over which the quotient `node` is Exp(v) / sum(Exp(v)) for some v."""
    exponential = node.inputs[0]
    if exponential is None or operation(exponential, "Exp") is None:
        return None
    for axis in range(-1, -1 - len(dims_of(exponential) or ()), -1):
        rows = RowStatistics(exponential, axis)
        summed = rows.reduced(rows.beside(node.inputs[1]), "ReduceSum")
        if summed is not None and (summed is exponential or _is_selected(summed, exponential)):
            return axis
    return None


def _is_selected(summed: ir.Value, exponential: ir.Value) -> bool:
    """Whether `summed` is `Where(m, exponential, 0)` and the exponential is that of `Where(m, ·, -inf)` minus something."""
    selected, shifted = operation(summed, "Where"), operation(exponential, "Exp")
    difference = None if shifted is None else operation(shifted.inputs[0], "Sub")
    masked = None if difference is None else operation(difference.inputs[0], "Where")
    if selected is None or masked is None or selected.inputs[0] is not masked.inputs[0]:
        return False
    return selected.inputs[1] is exponential and scalar(selected.inputs[2]) == 0 and scalar(masked.inputs[2]) == -np.inf


def _shifted(value: ir.Value | None, axis: int = -1) -> ir.Value | None:
    """x where `value` is x minus the maximum of its rows."""
    node = operation(value, "Sub")
    x = None if node is None else node.inputs[0]
    if node is None or x is None:
        return None
    rows = RowStatistics(x, axis)
    return x if rows.reduced(rows.beside(node.inputs[1]), "ReduceMax") is x else None


def _log_softmax(node: ir.Node) -> _Softmax | Declined | None:
    """The logarithm of a softmax that the difference `node` is."""
    shifted = node.inputs[0]
    if shifted is None:
        return None
    rows = RowStatistics(shifted)
    logarithm = operation(rows.core(rows.beside(node.inputs[1])), "Log")
    summed = None if logarithm is None else rows.reduced(logarithm.inputs[0], "ReduceSum")
    exponential = operation(summed, "Exp")
    is_it = exponential is not None and exponential.inputs[0] is shifted
    if not is_it:
        return None
    x = _shifted(shifted)
    return Declined(_OVERFLOWS, node) if x is None else _Softmax("LogSoftmax", x, -1)


_FORMULAS = {"Div": _softmax, "Sub": _log_softmax, "Softmax": _softmax_of_shifted}
