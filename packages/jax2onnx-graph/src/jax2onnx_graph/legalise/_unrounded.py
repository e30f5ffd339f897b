"""`UnroundedValues`: results that a runtime may hold wider than their type, and what reads them and jumps between neighbours."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from jax2onnx_graph._ir import ir
from jax2onnx_graph.facts.operators import ValueUse, facts_of
from jax2onnx_graph.legalise._carriers import use_of
from jax2onnx_graph.legalise.kernels import operator_key, signature
from jax2onnx_graph.rewrite.patterns import COMPARISONS

__all__ = ["UnroundedValues"]

_STEPS = frozenset({*COMPARISONS, "Ceil", "Floor", "Mod", "Round", "Sign"})
"""Operators whose results differ as much as whole numbers do where an operand is only a little different."""


class UnroundedValues:
    """The values of one root graph that may not be rounded to their types yet when another operator reads them.

    Two equal numbers of which only one is rounded are not equal: the smallest of the largest k logits would be larger than itself.
    A number just below 3 that rounds to 3 is 2 as an integer. Elsewhere more digits than JAX has do no harm.
    """

    def __init__(self, dtypes: Collection[ir.DataType]) -> None:
        self._dtypes = dtypes
        self._values: set[ir.Value] = set()

    def note(self, node: ir.Node, opset: int) -> None:
        """Record the results of a node; those of casts are rounded, as are those that are chosen from what is rounded."""
        found = signature(operator_key(node), opset)
        if not self._dtypes or found is None or node.op_type == "Cast":
            return
        if _stays_rounded(operator_key(node), found.main, opset) and self._values.isdisjoint(node.inputs):
            return
        self._values.update(value for value in node.outputs if value.dtype in self._dtypes)

    def to_round(self, node: ir.Node) -> Sequence[ir.Value]:
        """The operands to round of what takes a step, or of a cast to a wider type that one reads."""
        if node.op_type not in _STEPS and not (
            node.op_type == "Cast" and (_is_whole(node) or _takes_step(node.outputs[0]))
        ):
            return ()
        return [value for value in node.inputs if value is not None and value in self._values]


def _is_whole(node: ir.Node) -> bool:
    """Whether the results of a node are integers or booleans."""
    dtype = node.outputs[0].dtype
    return dtype is not None and not dtype.is_floating_point()


def _takes_step(value: ir.Value, steps: int = 4) -> bool:
    """Whether what reads a value takes a step, perhaps after clipping it, as casts to integers do."""
    readers = [reader for reader, _ in value.uses() if not reader.domain]
    if any(reader.op_type in _STEPS or (reader.op_type == "Cast" and _is_whole(reader)) for reader in readers):
        return True
    passed = (reader for reader in readers if reader.op_type in ("Cast", "Clip", "Where"))
    return steps > 0 and any(_takes_step(reader.outputs[0], steps - 1) for reader in passed)


def _stays_rounded(key: str, variable: str, opset: int) -> bool:
    """Whether the results of an operator are of its operands' type without being rounded to it."""
    return facts_of(key).keeps_float_type or use_of(key, variable, opset) in (ValueUse.MOVE, ValueUse.ORDER)
