"""The measured tables of the operators and element types that OpenVINO's CPU plugin computes right, and of its guarantees.

The tables are data (`kernels.json`, `guarantees.json`), written by `benchmarks/measure_openvino.py`, which builds, runs and compares a
model of one node for each operator, opset and element type.
"""

from __future__ import annotations

import functools
import importlib.resources
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx_ir as ir
from jax2onnx_graph.arrays import Dtype
from jax2onnx_graph.facts.operators import ValueUse, facts_of, value_use
from jax2onnx_graph.legalise.guarantees import GuaranteeTable
from jax2onnx_graph.legalise.kernels import KernelTable, element_type
from jax2onnx_graph.legalise.legalisation import Legalisation
from jax2onnx_graph.targets import Property

from jax2onnx_openvino._rewrites import REWRITES, is_small_enough
from jax2onnx_openvino._unsigned import has_form
from jax2onnx_openvino._unsigned_forms import FORMS

__all__ = ["guarantees", "legalisation", "measured", "supports"]


_WITHOUT_KERNELS = (np.dtype(np.float64), np.dtype(np.uint64))
"""The plugin computes these as float32 and as int32."""

_UNSIGNED, _SIGNED = np.dtype(np.uint32), np.dtype(np.int32)
"""The plugin computes the first with the instructions of the second: `UnsignedPass` writes it so, but for Casts."""

_WIDE = frozenset({"i32", "i64"})

_WRONG_WITH_OTHERS = dict.fromkeys(("Where", "Max", "Min", "Clip", "Pad"), _WIDE)
"""The plugin computes these in float32, too: Where after a comparison, which is in float32, the others with constants, which are."""

_NARROW = frozenset({"i8", "u8", "i16", "u16"})
"""Next to others the plugin computes with these in wider types or in float32, rounds quotients, and saturates at the end; TopK of
constants it does not take."""

_COMPUTED = (ValueUse.RING, ValueUse.VALUE)


@functools.cache
def measured(table: str) -> Mapping[str, Any]:
    """The data file "kernels" or "guarantees"."""
    data: dict[str, Any] = json.loads(
        importlib.resources.files("jax2onnx_openvino").joinpath(f"{table}.json").read_text()
    )
    return data


@functools.cache
def legalisation() -> Legalisation:
    """The kernels and decompositions by which OpenVINO computes operators exactly; integers of 64 bits are small in a model for it."""
    kernels = {key: _by_itself(key, opsets) for key, opsets in measured("kernels")["kernels"].items()}
    return Legalisation(KernelTable(kernels, narrow=frozenset({ir.DataType.INT64})), REWRITES, is_small_enough)


def _by_itself(key: str, opsets: Mapping[str, Mapping[str, str]]) -> Mapping[str, Mapping[str, str]]:
    """The measured element types of an operator, without those with which it is wrong next to others."""
    lost = _WRONG_WITH_OTHERS.get(key, frozenset()) | ({"u32"} if key != "Cast" else frozenset())
    if (value_use(key) in _COMPUTED or key == "TopK") and not facts_of(key).type_bound:
        lost |= _NARROW
    return {
        opset: {
            variable: " ".join(name for name in types.split() if name not in lost) for variable, types in found.items()
        }
        for opset, found in opsets.items()
    }


@functools.cache
def supports(op_type: str, dtype: Dtype, opset: int) -> bool:
    """Whether OpenVINO computes the operator on `dtype` exactly, natively or after legalisation."""
    if np.dtype(dtype) in _WITHOUT_KERNELS:
        return False
    if np.dtype(dtype) == _UNSIGNED:
        return has_form(op_type) and (op_type in FORMS or legalisation().supports(op_type, _SIGNED, opset))
    return legalisation().supports(op_type, dtype, opset)


@functools.cache
def _guarantees() -> GuaranteeTable:
    data = measured("guarantees")
    return GuaranteeTable(data["guarantees"], legalisation().table, data["opsets"][1])


def guarantees(op_type: str, dtype: Dtype, kept: Property) -> bool:
    """Whether the kernel or decomposition of the operator keeps the property; see `Target.guarantees`. Decompositions wrap around."""
    dtype = _SIGNED if np.dtype(dtype) == _UNSIGNED else dtype
    element = element_type(dtype)
    if kept == "wraps" and element is not None and legalisation().find_rewrite(op_type, element) is not None:
        return True
    return _guarantees().keeps(op_type, dtype, kept)
