"""Which operators ONNX Runtime's CPU provider runs with which element types: the measured table.

The tables are data (`kernels.json` for the newest version of ONNX Runtime, `versions/` for older ones), written by
`tools/measure_ort_kernels.py`, which builds, loads and runs a model of one node for each operator, opset and element type.
"""

from __future__ import annotations

import functools
import importlib.resources
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import onnx
import onnx_ir as ir
from jax2onnx_graph.facts.operators import facts_of, split_reduction

__all__ = [
    "NEWEST", "Signature", "bindings", "element_type", "is_measured", "kernels", "measured", "measured_opsets",
    "measured_versions", "operator_key", "signature",
]  # fmt: skip

#: The newest version of ONNX Runtime that was measured, wherever a version is asked for.
NEWEST = ""


class Signature(NamedTuple):
    """The type variables of an operator at some opset.

    `inputs` and `outputs` name the type variable (or the fixed type) of each formal parameter; the last
    one repeats where the operator is variadic. `main` is the variable that `supports` asks about.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    floating: frozenset[str]
    main: str

    def input(self, index: int) -> str:
        """The type variable of the operand at `index`."""
        return self.inputs[min(index, len(self.inputs) - 1)]

    def output(self, index: int) -> str:
        """The type variable of the result at `index`."""
        return self.outputs[min(index, len(self.outputs) - 1)]


@functools.cache
def measured(table: str, version: str = NEWEST) -> Mapping[str, Any]:
    """The data file "kernels" or "guarantees" of a version."""
    name = f"versions/{table}-{version}.json" if version else f"{table}.json"
    data: dict[str, Any] = json.loads(importlib.resources.files("jax2onnx_onnxruntime").joinpath(name).read_text())
    return data


@functools.cache
def measured_versions() -> Mapping[str, str]:
    """The versions of ONNX Runtime that were measured, oldest first, and by which name `kernels` knows them."""
    files = importlib.resources.files("jax2onnx_onnxruntime").joinpath("versions").iterdir()
    names = [
        file.name.removeprefix("kernels-").removesuffix(".json") for file in files if file.name.startswith("kernels-")
    ]
    older = sorted(names, key=lambda version: [int(part) for part in version.split(".")])
    newest = ".".join(measured("kernels")["onnxruntime"].split(".")[:2])
    return {**{version: version for version in older}, newest: NEWEST}


def measured_opsets(version: str = NEWEST) -> range:
    """The versions of the standard operators that a version of ONNX Runtime runs."""
    lowest, highest = measured("kernels", version)["opsets"]
    return range(lowest, highest + 1)


def _table(version: str) -> Mapping[str, Mapping[str, Mapping[str, str]]]:
    table: Mapping[str, Mapping[str, Mapping[str, str]]] = measured("kernels", version)["kernels"]
    return table


def is_measured(key: str, version: str = NEWEST) -> bool:
    """Whether the table says anything about the operator `key`."""
    return key in _table(version)


def element_type(dtype: np.dtype[Any]) -> ir.DataType | None:
    """The ONNX element type of a NumPy (or ml_dtypes) dtype, or None where ONNX has none."""
    try:
        return ir.DataType.from_numpy(np.dtype(dtype))
    except TypeError:
        return None


def operator_key(node: ir.Node) -> str:
    """The name under which the kernels of a node are measured: `"ScatterND_add"` for one with a reduction."""
    if not facts_of(node.op_type).has_reduction:
        return node.op_type
    reduction = node.attributes.get_string("reduction", "none")
    return node.op_type if reduction == "none" else f"{node.op_type}_{reduction}"


@functools.cache
def signature(key: str, opset: int) -> Signature | None:
    """The signature of a standard operator at an opset; None where there is no such operator."""
    op_type, _ = split_reduction(key)
    try:
        schema = onnx.defs.get_schema(op_type, opset, "")
    except onnx.defs.SchemaError:
        return None
    inputs = tuple(p.type_str for p in schema.inputs)
    outputs = tuple(p.type_str for p in schema.outputs)
    floats = {"tensor(float)", "tensor(float16)", "tensor(double)", "tensor(bfloat16)"}
    floating = {c.type_param_str for c in schema.type_constraints if floats & set(c.allowed_type_strs)}
    main = facts_of(op_type).element_type or (inputs or outputs)[0]
    return Signature(inputs, outputs, frozenset(floating), main)


def bindings(node: ir.Node, found: Signature) -> dict[str, ir.DataType]:
    """Type variable → element type, from the operands, then from the results."""
    types: dict[str, ir.DataType] = {}
    for index, value in enumerate(node.inputs):
        if value is not None and value.dtype is not None:
            types.setdefault(found.input(index), value.dtype)
    for index, output in enumerate(node.outputs):
        if output.dtype is not None:
            types.setdefault(found.output(index), output.dtype)
    return types


@functools.cache
def kernels(key: str, variable: str, opset: int, version: str = NEWEST) -> frozenset[ir.DataType] | None:
    """The element types with which the operator `key` runs natively when `variable` is bound to them.

    `key` is the operator's name, with its reduction where it has one (`"ScatterND_add"`), `version` that of ONNX Runtime. None
    where nothing was measured.
    """
    found = signature(key, opset)
    opsets = _table(version).get(key)
    if found is None or opsets is None:
        return None
    first = max((int(key) for key in opsets if int(key) <= opset), default=None)
    names = None if first is None else opsets[str(first)].get(variable)
    return None if names is None else frozenset(map(ir.DataType.from_short_name, names.split()))
