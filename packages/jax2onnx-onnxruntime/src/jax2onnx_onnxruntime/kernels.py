"""Which operators ONNX Runtime's CPU provider runs with which element types: the measured table.

The table is data (`kernels.json`), written by `tools/measure_ort_kernels.py`, which builds, loads and
runs a model of one node for each operator, version and element type.
"""

from __future__ import annotations

import functools
import importlib.resources
import json
from typing import Any, NamedTuple

import numpy as np
import onnx
import onnx_ir as ir
from jax2onnx_graph.facts.operators import facts_of, split_reduction

__all__ = [
    "Signature",
    "bindings",
    "element_type",
    "is_measured",
    "kernels",
    "measured_version",
    "operator_key",
    "signature",
]


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
def _table() -> dict[str, dict[str, dict[str, str]]]:
    data = importlib.resources.files("jax2onnx_onnxruntime").joinpath("kernels.json")
    table: dict[str, dict[str, dict[str, str]]] = json.loads(data.read_text())["kernels"]
    return table


def measured_version() -> str:
    """The version of ONNX Runtime that the table was measured with."""
    data = importlib.resources.files("jax2onnx_onnxruntime").joinpath("kernels.json")
    version: str = json.loads(data.read_text())["onnxruntime"]
    return version


def is_measured(key: str) -> bool:
    """Whether the table says anything about the operator `key`."""
    return key in _table()


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
def kernels(key: str, variable: str, opset: int) -> frozenset[ir.DataType] | None:
    """The element types with which the operator `key` runs natively when `variable` is bound to them.

    `key` is the operator's name, with its reduction where it has one (`"ScatterND_add"`). None where
    nothing was measured.
    """
    found = signature(key, opset)
    versions = _table().get(key)
    if found is None or versions is None:
        return None
    measured = max((int(key) for key in versions if int(key) <= opset), default=None)
    names = None if measured is None else versions[str(measured)].get(variable)
    return None if names is None else frozenset(map(ir.DataType.from_short_name, names.split()))
