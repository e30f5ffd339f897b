"""`attributes_of` and its inverse: Python values as attributes of nodes."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jax2onnx_graph._ir import ir
from jax2onnx_graph.arrays import Array, Dtype
from jax2onnx_graph.errors import ConversionError

__all__ = ["Attribute", "attribute_values", "attributes_of", "element_type", "plain_attributes"]

#: What may be given as an attribute; None leaves it out.
Attribute = (
    bool | int | float | str | np.generic | Array | Dtype | type[np.generic]
    | Sequence[int] | Sequence[float] | Sequence[str] | ir.Graph | ir.TensorProtocol | ir.DataType | None
)  # fmt: skip

# Attributes that name an element type.
_ELEMENT_TYPES = frozenset({"to", "dtype", "output_dtype"})


def element_type(dtype: Dtype | type[np.generic]) -> ir.DataType:
    """The ONNX element type of a NumPy (or ml_dtypes) dtype; ConversionError where ONNX has none."""
    return _element_type(np.dtype(dtype))


@functools.cache
def _element_type(dtype: Dtype) -> ir.DataType:
    try:
        return ir.DataType.from_numpy(dtype)
    except TypeError:
        raise ConversionError(f"ONNX has no tensor element type for the dtype {dtype}.") from None


def attributes_of(values: Mapping[str, Attribute]) -> list[ir.Attr]:
    """The attributes of a node, without those that are None."""
    return [_attribute(name, value) for name, value in values.items() if value is not None]


def attribute_values(node: ir.Node) -> dict[str, Attribute]:
    """The attributes of `node` as a builder takes them, for another node of its operator."""
    return {name: attribute.value for name, attribute in node.attributes.items()}


def plain_attributes(values: Mapping[str, Attribute]) -> dict[str, Attribute]:
    """The same with element types as numbers, as schemas read them, without those that are None."""
    return {
        name: int(_as_element_type(value)) if name in _ELEMENT_TYPES else value
        for name, value in values.items()
        if value is not None
    }


def _as_element_type(value: Any) -> ir.DataType:
    return ir.DataType(value) if isinstance(value, int) else element_type(value)


def _attribute(name: str, value: Any) -> ir.Attr:
    if name in _ELEMENT_TYPES:
        return ir.AttrInt64(name, int(_as_element_type(value)))
    if isinstance(value, (bool, np.bool_, np.integer)):
        return ir.AttrInt64(name, int(value))
    if isinstance(value, np.floating):
        return ir.AttrFloat32(name, float(value))
    if isinstance(value, (np.ndarray, np.generic)):
        return ir.AttrTensor(name, ir.tensor(np.asarray(value)))
    if isinstance(value, (list, tuple)):
        return _list_attribute(name, value)
    return ir.convenience.convert_attribute(name, value)


def _list_attribute(name: str, values: Sequence[Any]) -> ir.Attr:
    # The type is given, because inferring it takes onnx_ir longer than all else about a node.
    if all(isinstance(v, (int, np.integer)) for v in values):
        return ir.AttrInt64s(name, [int(v) for v in values])
    kind = ir.AttributeType.FLOATS if all(isinstance(v, float) for v in values) else None
    return ir.convenience.convert_attribute(name, list(values), kind)
