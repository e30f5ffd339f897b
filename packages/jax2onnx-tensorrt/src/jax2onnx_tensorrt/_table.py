"""The operators and element types of TensorRT's ONNX parser, as its documentation lists them: `operators.json`.

The tables are those of https://github.com/onnx/onnx-tensorrt/blob/main/docs/operators.md at the releases 9.2 and 10.15.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib.resources
import json
from collections.abc import Mapping, Sequence

import onnx
from jax2onnx_graph.arrays import Dtype
from jax2onnx_graph.facts.operators import REDUCTIONS
from jax2onnx_graph.legalise.kernels import KernelTable, signature
from jax2onnx_graph.legalise.legalisation import Legalisation

from jax2onnx_tensorrt._rewrites import REWRITES

__all__ = ["TYPES", "ir_version", "legalisation", "operators", "opsets", "supports", "versions"]

#: What operands beside the main one may be: indices, sizes, conditions, scales.
TYPES = "f32 f16 bf16 i32 i64 b8"

_FIRST_OPSET = 18
"""The first that models are made for; the parser reads some before it."""

_SCALED = {"QuantizeLinear", "DequantizeLinear"}

_INEXACT = {"LogSoftmax", "ReduceLogSumExp"}
"""The parser makes Log(Softmax) and Log(ReduceSum(Exp)) of these, which are infinite where the exponential is not a number of the type."""


@dataclasses.dataclass(frozen=True)
class _Table:
    """What a version of TensorRT reads: opsets, the format of files, and operators → short names of their main operand's element types."""

    opsets: range
    ir_version: int
    operators: Mapping[str, str]


@functools.cache
def _tables() -> Mapping[str, _Table]:
    data = json.loads(importlib.resources.files("jax2onnx_tensorrt").joinpath("operators.json").read_text("utf-8"))
    return {
        version: _Table(
            range(_FIRST_OPSET, entry["opsets"][1] + 1), entry["ir_version"],
            {operator: types for types, names in entry["operators"].items() for operator in names.split()},
        )
        for version, entry in data["versions"].items()
    }  # fmt: skip


def versions() -> Sequence[str]:
    """The versions of TensorRT whose table is known, oldest first."""
    return tuple(_tables())


def opsets(version: str) -> range:
    """The versions of the standard operators that a version reads and models are made for."""
    return _tables()[version].opsets


def ir_version(version: str) -> int:
    """The version of the file format that came with the newest opset that a version reads."""
    return _tables()[version].ir_version


def operators(version: str) -> Mapping[str, str]:
    """The short names of the element types of each operator's main operand."""
    return _tables()[version].operators


@functools.cache
def legalisation(version: str) -> Legalisation:
    """The kernels and decompositions by which operators are computed at the element types that TensorRT has."""
    known = operators(version)
    kernels = {key: _kernel(key, known.get(key, ""), opsets(version)) for key in _standard()}
    for operator in ("ScatterElements", "ScatterND"):
        kernels |= {key: _kernel(key, "", opsets(version)) for key in (f"{operator}_{r}" for r in REDUCTIONS)}
    return Legalisation(KernelTable(kernels), REWRITES)


@functools.cache
def _standard() -> Sequence[str]:
    """The operators of all opsets of the standard."""
    return sorted({schema.name for schema in onnx.defs.get_all_schemas() if not schema.domain})


def _kernel(key: str, types: str, opsets: range) -> Mapping[str, Mapping[str, str]]:
    """The element types of each type variable of an operator at each opset."""
    kernel = {}
    for opset in opsets:
        found = signature(key, opset)
        if found is not None:
            others = f"{TYPES} i8" if key in _SCALED else TYPES if types else ""
            variables = {variable for variable in (*found.inputs, *found.outputs) if not variable.startswith("tensor(")}
            kernel[str(opset)] = {v: types if v == found.main or key == "Cast" else others for v in variables}
    return kernel or {str(opsets[0]): {"T": types}}


def supports(op_type: str, dtype: Dtype, opset: int, version: str) -> bool:
    """Whether TensorRT computes an operator at an element type, or other operators that it has stand for it."""
    if opset not in opsets(version) or op_type in _INEXACT:
        return False
    return legalisation(version).supports(op_type, dtype, opset)
