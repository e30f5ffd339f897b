"""`Legalisation`: the kernels of a runtime, and decompositions of operators without a kernel."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

from jax2onnx_graph._ir import ir
from jax2onnx_graph.arrays import Dtype
from jax2onnx_graph.build.builder import GraphBuilder
from jax2onnx_graph.facts.availability import is_allowed
from jax2onnx_graph.legalise._carriers import find_carrier
from jax2onnx_graph.legalise.kernels import KernelTable, element_type, signature
from jax2onnx_graph.legalise.magnitudes import Magnitude

__all__ = ["Legalisation", "Rewrite"]

#: Writes what a node computes with other operators; None where too little is known about the node. The same operator
#: among them is meant for the kernel as it is.
Rewrite = Callable[[GraphBuilder, ir.Node, ir.DataType], ir.Value | None]


def _never(_key: str, _magnitude: Magnitude) -> bool:
    return False


@dataclasses.dataclass(frozen=True)
class Legalisation:
    """The ways by which a runtime computes operators exactly: by kernels, through wider types, or by other operators.

    Attributes:
      table: its kernels.
      rewrites: operators without a right kernel → what writes them with others, and the element types for which it does.
      is_small_enough: whether the kernel of a rewritten operator is right for operands of some magnitude.
      held_wider: float types whose kernels are others between casts, of which the runtime leaves pairs out: a result goes to the
        next operator before it is rounded.
    """

    table: KernelTable
    rewrites: Mapping[str, tuple[Rewrite, Sequence[ir.DataType]]] = dataclasses.field(default_factory=dict)
    is_small_enough: Callable[[str, Magnitude], bool] = _never
    held_wider: frozenset[ir.DataType] = frozenset()

    def find_rewrite(self, key: str, dtype: ir.DataType) -> Rewrite | None:
        """The rewrite for an operator on an element type, or None."""
        rewrite, dtypes = self.rewrites.get(key, (None, ()))
        return rewrite if dtype in dtypes else None

    def supports(self, op_type: str, dtype: Dtype, opset: int) -> bool:
        """Whether an operator is computed exactly, by a kernel or after legalisation.

        An operator that was not measured is taken to run as the standard allows.

        Args:
          op_type: a standard operator, with its reduction where it has one ("ScatterND_add").
          dtype: the element type of its main operand (the values of `Where`, the data of `Gather`, the result of
            `ConstantOfShape`).
          opset: the version of the standard operators.
        """
        element, found = element_type(dtype), signature(op_type, opset)
        if element is None or found is None:
            return False
        if not self.table.has(op_type):
            return is_allowed(op_type, dtype, opset)
        if self.find_rewrite(op_type, element) is not None:
            return True
        variables = ("T1", "T2") if op_type == "Cast" else (found.main,)
        return all(self._is_reachable(op_type, variable, element, opset) for variable in variables)

    def _is_reachable(self, key: str, variable: str, element: ir.DataType, opset: int) -> bool:
        """Whether there is a kernel for the element type, or for one that carries it."""
        native = self.table.types(key, variable, opset)
        if native is None:
            return False
        return element in native or find_carrier(self.table, key, variable, element, opset) is not None
