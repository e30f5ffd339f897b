"""Types of values and tensors as text for people."""

from __future__ import annotations

from jax2onnx_graph._ir import ir
from jax2onnx_graph.facts.dtypes import type_name

__all__ = ["tensor_type_text", "type_text"]


def tensor_type_text(tensor: ir.TensorProtocol) -> str:
    """Element type and shape: "float32[3, 4]"."""
    return f"{type_name(tensor.dtype)}[{', '.join(str(int(size)) for size in tensor.shape.numpy())}]"


def type_text(value: ir.Value) -> str:
    """Element type and dimensions: "float32[batch, 10]", "int64[…]" if not even the rank is known."""
    dims = "…" if value.shape is None else ", ".join(_dim(dim) for dim in value.shape)
    return _type_text(value.type, dims)


def _type_text(type_: ir.TypeProtocol | None, dims: str) -> str:
    match type_:
        case ir.SequenceType():
            return f"sequence({_type_text(type_.elem_type, dims)})"
        case ir.OptionalType():
            return f"optional({_type_text(type_.elem_type, dims)})"
        case ir.TensorType():
            return f"{type_name(type_.dtype)}[{dims}]"
        case ir.SparseTensorType():
            return f"sparse {type_name(type_.dtype)}[{dims}]"
    return f"unknown[{dims}]"


def _dim(dim: int | ir.SymbolicDim) -> str:
    if isinstance(dim, ir.SymbolicDim):
        return "?" if dim.value is None else dim.value
    return str(dim)
