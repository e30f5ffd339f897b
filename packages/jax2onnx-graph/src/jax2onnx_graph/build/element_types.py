"""`check_element_types`: element types are compared with the opset and the target of a model."""

from __future__ import annotations

from collections.abc import Iterable

from jax2onnx_graph._ir import ir
from jax2onnx_graph.errors import ConversionError
from jax2onnx_graph.facts.dtypes import first_opset
from jax2onnx_graph.targets import Target

__all__ = ["check_element_types"]


def check_element_types(opset: int, target: Target, dtypes: Iterable[ir.DataType | None]) -> None:
    """Check that a model for an opset and a target can hold tensors of some element types.

    Args:
      opset: the version of the standard operators.
      target: the runtime that the model is for.
      dtypes: the element types; None for one that is not known.

    Raises:
      ConversionError: the operators of the opset, or the target, do not know one of them.
    """
    for dtype in dtypes:
        first = 0 if dtype is None else first_opset(dtype)
        if dtype is None or not first:
            continue
        if first > opset:
            raise ConversionError(
                f"The model holds {dtype} tensors, which ONNX has from opset {first} on, and it is for opset {opset}. "
                f"Convert with to_onnx(..., opset={first})."
            )
        if not any(target.supports(operator, dtype.numpy(), opset) for operator in ("Cast", "DequantizeLinear")):
            raise ConversionError(
                f"The model holds {dtype} tensors, and {target.name} has no operator for those, not even Cast. Let the "
                'function take and give another type, or convert with to_onnx(..., target="onnx").'
            )
