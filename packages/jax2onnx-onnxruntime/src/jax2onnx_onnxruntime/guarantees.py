"""What the kernels of ONNX Runtime's CPU provider keep of an operator's meaning: the measured table.

The tables are data (`guarantees.json`, and `versions/` for older ones), written by `tools/measure_ort_guarantees.py`, which runs
a small model for each operator, property and element type.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import onnx_ir as ir
from jax2onnx_graph.targets import Property

from jax2onnx_onnxruntime.carriers import find_carrier
from jax2onnx_onnxruntime.kernels import NEWEST, element_type, measured, signature

__all__ = ["concerns", "guarantees"]


@functools.cache
def _measured(op_type: str, kept: Property, version: str) -> dict[ir.DataType, bool] | None:
    """Element type → whether the property is kept; None where nothing was measured."""
    found = measured("guarantees", version)["guarantees"].get(op_type, {}).get(kept)
    if found is None:
        return None
    return {ir.DataType.from_short_name(name): how == "kept" for how, names in found.items() for name in names.split()}


def concerns(kept: Property, element: ir.DataType) -> bool:
    """Whether numbers of this type can show the property: only floats are NaN, only integers wrap around."""
    if kept in ("empty", "order"):
        return True
    return element.is_integer() if kept == "wraps" else element.is_floating_point()


@functools.cache
def guarantees(op_type: str, dtype: np.dtype[Any], kept: Property, version: str = NEWEST) -> bool:
    """Whether ONNX Runtime's kernel keeps a property of an operator; see `Target.guarantees`.

    A type that the operator has no kernel for is computed in a wider one, and the answer is that of the wider type;
    where there is none either, nothing is guaranteed. What was not measured is taken to be kept.
    """
    element, found = element_type(dtype), _measured(op_type, kept, version)
    if element is None or found is None or not concerns(kept, element):
        return True
    if kept == "order":
        return all(found.values())
    if element not in found:
        carrier = _carrier(op_type, element, version)
        return carrier is not None and found.get(carrier, False)
    return found[element]


def _carrier(op_type: str, element: ir.DataType, version: str) -> ir.DataType | None:
    """The type in which the operator is computed for `element`."""
    opset = measured("guarantees", version)["opset"]
    found = signature(op_type, opset)
    carrier = None if found is None else find_carrier(op_type, found.main, element, opset, version)
    return None if carrier is None else carrier.dtype
