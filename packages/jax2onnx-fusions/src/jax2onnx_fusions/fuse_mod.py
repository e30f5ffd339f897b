"""`FuseMod`: a truncated remainder whose sign is corrected becomes the floored `Mod`."""

from __future__ import annotations

__all__ = ["FuseMod"]

from jax2onnx_graph import ir
from jax2onnx_graph.facts.values import known
from jax2onnx_graph.rewrite.editor import GraphEditor
from jax2onnx_graph.rewrite.pass_base import Declined, NodePass, Phase
from jax2onnx_graph.rewrite.patterns import Formula, matches, operation, scalar

_IS_NEGATIVE = Formula("Less", "r", 0)
_MOVED = (Formula("Add", "r", "n"), "r")
#: What `x % n` is with the truncated remainder r; `false` is `n < 0`.
_FLOORED = Formula(
    "Where",
    Formula("And", (_IS_NEGATIVE, Formula("Xor", _IS_NEGATIVE, "false")), Formula("Not", Formula("Equal", "r", 0))),
    *_MOVED,
)
#: What JAX writes for it, whatever the conditions are.
_CORRECTED = Formula("Where", Formula("And", Formula("Xor", "below", "negative"), "other"), *_MOVED)


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
        mod = operation(node.inputs[2], "Mod")
        if mod is None or not _truncates(mod):
            return None
        divisor = scalar(mod.inputs[1])
        if divisor is not None and divisor > 0:
            found = matches(_FLOORED, node.outputs[0])
            return mod if any(scalar(one["n"]) == divisor and _is_false(one.get("false")) for one in found) else None
        is_corrected = any(one["n"] is mod.inputs[1] for one in matches(_CORRECTED, node.outputs[0]))
        return Declined("the divisor is not a positive constant", node) if is_corrected else None

    def rewrite(self, node: ir.Node, match: ir.Node, editor: GraphEditor) -> None:
        editor.put(node, "Mod", match.inputs)


def _truncates(mod: ir.Node) -> bool:
    """Whether the node is the remainder of integers that has the sign of the dividend."""
    dtype = mod.outputs[0].dtype
    return dtype is not None and dtype.is_integer() and mod.attributes.get_int("fmod", 0) == 1


def _is_false(value: ir.Value | None) -> bool:
    """Whether a value is a constant without any true element, or there is none."""
    array = known(value)
    return value is None or (array is not None and not array.any())
