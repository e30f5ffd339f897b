"""`FuseMod`: a truncated remainder whose sign is corrected becomes the floored `Mod`."""

from __future__ import annotations

__all__ = ["FuseMod"]

from jax2onnx_graph import ir
from jax2onnx_graph.rewrite.editor import GraphEditor
from jax2onnx_graph.rewrite.pass_base import Declined, NodePass, Phase
from jax2onnx_graph.rewrite.patterns import operation, other_operand
from jax2onnx_graph.rewrite.remainders import floored_remainder


class FuseMod(NodePass[ir.Node]):
    """`i % n` of Python, as in the index of a ring buffer:

    1. `Where(And(r < 0, r != 0), r + n, r)` with `r = Mod(x, n, fmod=1)` of integers and a positive number n is
       `Mod(x, n)`.
    2. So it is with `Xor(r < 0, n < 0)` as the first condition, where `n < 0` is a constant, false.
    """

    phase = Phase.FUSE
    forms = "Mod"
    operators = frozenset({"Where"})

    def match(self, node: ir.Node, editor: GraphEditor) -> ir.Node | Declined | None:
        mod = floored_remainder(node)
        if mod is None and _is_corrected(node):
            return Declined("the divisor is not a positive constant", node)
        return mod

    def rewrite(self, node: ir.Node, match: ir.Node, editor: GraphEditor) -> None:
        editor.put(node, "Mod", match.inputs)


def _is_corrected(where: ir.Node) -> bool:
    """Whether the node is `Where(And(Xor(·, ·), ·), r + n, r)` with `r = Mod(x, n, fmod=1)` of integers, as JAX writes `x % n`."""
    condition, moved, rest = where.inputs
    mod, total, both = operation(rest, "Mod"), operation(moved, "Add"), operation(condition, "And")
    if mod is None or total is None or both is None or rest is None or rest.dtype is None:
        return False
    differs = any(operation(side, "Xor") is not None for side in both.inputs)
    is_moved = rest in total.inputs and other_operand(total, rest) is mod.inputs[1]
    return differs and is_moved and rest.dtype.is_integer() and mod.attributes.get_int("fmod", 0) == 1
