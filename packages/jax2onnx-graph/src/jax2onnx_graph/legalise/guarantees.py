"""`GuaranteeTable`: the parts of operators' meanings that the kernels of a runtime were measured to keep."""

from __future__ import annotations

from collections.abc import Mapping

from jax2onnx_graph._ir import ir
from jax2onnx_graph.arrays import Dtype
from jax2onnx_graph.legalise._carriers import find_carrier
from jax2onnx_graph.legalise.kernels import KernelTable, element_type, signature
from jax2onnx_graph.targets import Property

__all__ = ["GuaranteeTable", "concerns"]


def concerns(kept: Property, element: ir.DataType) -> bool:
    """Whether a property means something for numbers of a type: only floats are NaN, only integers wrap around."""
    if kept in ("empty", "order"):
        return True
    return element.is_integer() if kept == "wraps" else element.is_floating_point()


class GuaranteeTable:
    """The properties that kernels keep at the element types that they have.

    Args:
      guarantees: operator → property → "kept" and "lost" → short names of element types.
      kernels: the kernels that were measured.
      opset: the version of the standard operators that they were measured at.
    """

    def __init__(
        self, guarantees: Mapping[str, Mapping[str, Mapping[str, str]]], kernels: KernelTable, opset: int
    ) -> None:
        self._guarantees, self._kernels, self._opset = guarantees, kernels, opset
        self._answers: dict[tuple[str, Dtype, Property], bool] = {}

    def keeps(self, op_type: str, dtype: Dtype, kept: Property) -> bool:
        """Whether the kernel keeps a property of an operator.

        Args:
          op_type: a standard operator.
          dtype: the element type of its main operand.
          kept: the property, such as "nan".

        Returns:
          What `Target.guarantees` answers.

        A type that the operator has no kernel for is computed in a wider one, and the answer is that of the wider type;
        where there is none either, nothing is guaranteed. What was not measured is taken to be kept.
        """
        asked = op_type, dtype, kept
        if asked not in self._answers:
            self._answers[asked] = self._find(*asked)
        return self._answers[asked]

    def _find(self, op_type: str, dtype: Dtype, kept: Property) -> bool:
        element, found = element_type(dtype), self._measured(op_type, kept)
        if element is None or found is None or not concerns(kept, element):
            return True
        if kept == "order":
            return all(found.values())
        if element not in found:
            carrier = self._carrier(op_type, element)
            return carrier is not None and found.get(carrier, False)
        return found[element]

    def _measured(self, op_type: str, kept: Property) -> dict[ir.DataType, bool] | None:
        """Element type → whether the property is kept; None where nothing was measured."""
        found = self._guarantees.get(op_type, {}).get(kept)
        if found is None:
            return None
        names = ((name, how == "kept") for how, types in found.items() for name in types.split())
        return {ir.DataType.from_short_name(name): is_kept for name, is_kept in names}

    def _carrier(self, op_type: str, element: ir.DataType) -> ir.DataType | None:
        """The type in which the operator is computed for `element`."""
        found = signature(op_type, self._opset)
        carrier = None if found is None else find_carrier(self._kernels, op_type, found.main, element, self._opset)
        return None if carrier is None else carrier.dtype
