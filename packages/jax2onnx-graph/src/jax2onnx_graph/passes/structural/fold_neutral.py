"""`FoldNeutral`: arithmetic with neutral elements, and choices that are known, are removed."""

from __future__ import annotations

__all__ = ["FoldNeutral"]

import numpy as np

from jax2onnx_graph._ir import ir
from jax2onnx_graph.facts.axes import axis_of
from jax2onnx_graph.facts.operators import facts_of
from jax2onnx_graph.facts.values import dims_of, known, same_dims
from jax2onnx_graph.passes.structural.eliminate_common_subexpressions import EliminateCommonSubexpressions
from jax2onnx_graph.passes.structural.fold_constants import FoldConstants
from jax2onnx_graph.rewrite.editor import GraphEditor
from jax2onnx_graph.rewrite.pass_base import NodePass, Phase
from jax2onnx_graph.rewrite.patterns import is_floating, other_operand, scalar


class FoldNeutral(NodePass[ir.Value]):
    """Remove operators whose result is an operand x, where it has the shape of x, as in `iota · 1 + 0` of JAX's `arange`.

    1. `x · 1` and `x / 1` are x.
    2. `x + 0` and `x - 0` are x, for integers: for floats `-0.0 + 0` is `0.0`. For floats it is x, too, where nothing reads it but
       `sqrt(x) + c` with a constant c other than 0, as in Adam's update.
    3. `Gather(x, [0, 1, …])` of all elements along an axis is x.
    4. `Where(c, x, ·)` is x if every element of the constant c is true, and `Where(c, ·, x)` if none is.
    """

    phase = Phase.SIMPLIFY
    after = (FoldConstants, EliminateCommonSubexpressions)
    operators = frozenset({"Mul", "Div", "Add", "Sub", "Gather", "Where"})

    def match(self, node: ir.Node, editor: GraphEditor) -> ir.Value | None:
        """The operand that the result is."""
        if node.op_type == "Gather":
            return node.inputs[0] if _takes_all(node) else None
        if node.op_type == "Where":
            return _chosen(node)
        facts = facts_of(node.op_type)
        if facts.neutral == 0 and is_floating(node.outputs[0]) and not _sign_is_lost(node.outputs[0]):
            return None
        for constant in node.inputs if facts.is_commutative else node.inputs[1:]:
            x = other_operand(node, constant)
            if scalar(constant) == facts.neutral and same_dims(dims_of(x), dims_of(node.outputs[0])):
                return x
        return None

    def rewrite(self, node: ir.Node, match: ir.Value, editor: GraphEditor) -> None:
        editor.replace(node, match)


def _sign_is_lost(value: ir.Value) -> bool:
    """Whether all that reads a value is `sqrt(x) + c` for constants c other than 0, which is c for both zeros."""
    roots = [use.node for use in value.uses()]
    if value.is_graph_output() or any(root.op_type != "Sqrt" or root.domain for root in roots):
        return False
    results = [root.outputs[0] for root in roots]
    sums = [use.node for result in results for use in result.uses()]
    if any(result.is_graph_output() for result in results):
        return False
    return all(
        one.op_type == "Add" and not one.domain and any(scalar(x) not in (None, 0) for x in one.inputs) for one in sums
    )


def _chosen(where: ir.Node) -> ir.Value | None:
    """The operand that a constant condition chooses for all elements."""
    condition = known(where.inputs[0])
    if condition is None or not condition.size or condition.any() != condition.all():
        return None
    chosen = where.inputs[1 if condition.all() else 2]
    return chosen if same_dims(dims_of(chosen), dims_of(where.outputs[0])) else None


def _takes_all(gather: ir.Node) -> bool:
    """Whether a Gather takes all elements along its axis in their order."""
    dims, indices = dims_of(gather.inputs[0]), known(gather.inputs[1])
    if dims is None or indices is None:
        return False
    return dims[axis_of(gather, len(dims))] == indices.size and np.array_equal(indices, np.arange(indices.size))
