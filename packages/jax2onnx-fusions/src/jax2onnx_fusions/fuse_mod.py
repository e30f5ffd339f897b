"""`FuseMod`: a truncated remainder whose sign is corrected becomes the floored `Mod`."""

from __future__ import annotations

__all__ = ["FuseMod"]

from jax2onnx_graph import ir
from jax2onnx_graph.facts.values import known
from jax2onnx_graph.rewrite.editor import GraphEditor
from jax2onnx_graph.rewrite.pass_base import Declined, NodePass, Phase
from jax2onnx_graph.rewrite.patterns import operation, other_operand, scalar


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
        mod = _floored_remainder(node)
        if mod is None and _is_corrected(node):
            return Declined("the divisor is not a positive constant", node)
        return mod

    def rewrite(self, node: ir.Node, match: ir.Node, editor: GraphEditor) -> None:
        editor.put(node, "Mod", match.inputs)


def _is_corrected(where: ir.Node) -> bool:
    """Whether the node is `Where(And(Xor(·, ·), ·), r + n, r)` with `r = Mod(x, n, fmod=1)` of integers, as JAX writes `x % n`."""
    condition, moved, rest = where.inputs
    mod, total, both = operation(rest, "Mod"), operation(moved, "Add"), operation(condition, "And")
    if mod is None or total is None or both is None:
        return False
    differs = any(operation(side, "Xor") is not None for side in both.inputs)
    is_moved = rest in total.inputs and other_operand(total, rest) is mod.inputs[1]
    return differs and is_moved and _truncates(mod)


def _floored_remainder(where: ir.Node) -> ir.Node | None:
    """The truncated remainder `r = Mod(x, n, fmod=1)` where `where` makes `x % n` of it, for a constant n > 0.

    Such a node is `Where(And(r < 0, r != 0), r + n, r)`. The first condition may be `Xor(r < 0, n < 0)`, of which
    the second part is a constant, false.
    """
    condition, moved, rest = where.inputs
    mod, add = operation(rest, "Mod"), operation(moved, "Add")
    if mod is None or add is None or rest not in add.inputs or not _truncates(mod):
        return None
    divisor = scalar(mod.inputs[1])
    if divisor is None or divisor <= 0 or scalar(other_operand(add, rest)) != divisor:
        return None
    return mod if _says_negative(condition, rest) else None


def _truncates(mod: ir.Node) -> bool:
    """Whether the node is the remainder of integers that has the sign of the dividend."""
    dtype = mod.outputs[0].dtype
    return dtype is not None and dtype.is_integer() and mod.attributes.get_int("fmod", 0) == 1


def _says_negative(condition: ir.Value | None, rest: ir.Value | None) -> bool:
    """Whether `condition` is `rest < 0` and `rest != 0`, in either order."""
    conjunction = operation(condition, "And")
    if conjunction is None:
        return False
    sides = list(conjunction.inputs)
    return any(_is_below_zero(a, rest) and _is_nonzero(b, rest) for a, b in (sides, sides[::-1]))


def _is_below_zero(value: ir.Value | None, rest: ir.Value | None) -> bool:
    """Whether `value` is `rest < 0`, or that compared with a constant which is false."""
    differs = operation(value, "Xor")
    if differs is not None:
        constants = [array for operand in differs.inputs if (array := known(operand)) is not None]
        if len(constants) != 1 or constants[0].any():
            return False
        value = next(operand for operand in differs.inputs if known(operand) is None)
    less = operation(value, "Less")
    return less is not None and less.inputs[0] is rest and scalar(less.inputs[1]) == 0


def _is_nonzero(value: ir.Value | None, rest: ir.Value | None) -> bool:
    """Whether `value` is `rest != 0`."""
    negation = operation(value, "Not")
    equal = None if negation is None else operation(negation.inputs[0], "Equal")
    return equal is not None and rest in equal.inputs and scalar(other_operand(equal, rest)) == 0
