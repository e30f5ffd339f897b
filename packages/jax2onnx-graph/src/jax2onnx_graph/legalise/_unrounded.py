"""`UnroundedValues`: results that a runtime may hold wider than their type, and the comparisons that read them."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from jax2onnx_graph._ir import ir
from jax2onnx_graph.facts.operators import ValueUse, facts_of
from jax2onnx_graph.legalise._carriers import use_of
from jax2onnx_graph.legalise.kernels import operator_key, signature
from jax2onnx_graph.rewrite.patterns import COMPARISONS

__all__ = ["UnroundedValues"]


class UnroundedValues:
    """The values of one root graph that may not be rounded to their types yet when another operator reads them.

    Two equal numbers of which only one is rounded are not equal: the smallest of the largest k logits would be larger than itself.
    Elsewhere more digits than JAX has do no harm.
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

    def compared(self, node: ir.Node) -> Sequence[ir.Value]:
        """The operands of a comparison that are to be rounded."""
        if node.op_type not in COMPARISONS:
            return ()
        return [value for value in node.inputs if value is not None and value in self._values]


def _stays_rounded(key: str, variable: str, opset: int) -> bool:
    """Whether the results of an operator are of its operands' type without being rounded to it."""
    return facts_of(key).keeps_float_type or use_of(key, variable, opset) in (ValueUse.MOVE, ValueUse.ORDER)
