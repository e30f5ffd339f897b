"""The measured table of operators and element types that run wholly on the NPU, and right: `kernels.json`.

It is written by `benchmarks/measure_qnn.py`, which builds, runs and compares a model of one node for each operator and element type.
"""

from __future__ import annotations

import functools
import importlib.resources
import json
from collections.abc import Mapping

import numpy as np
from jax2onnx_graph.arrays import Dtype
from jax2onnx_graph.facts.operators import ValueUse, value_use
from jax2onnx_graph.legalise.kernels import KernelTable
from jax2onnx_graph.legalise.legalisation import Legalisation

__all__ = ["legalisation", "measured_version", "supports"]


def _table() -> str:
    return importlib.resources.files("jax2onnx_qnn").joinpath("kernels.json").read_text()


@functools.cache
def measured_version() -> str:
    """The version of the provider that was measured, without its patch."""
    version: str = json.loads(_table())["onnxruntime-qnn"]
    return ".".join(version.split(".")[:2])


@functools.cache
def legalisation() -> Legalisation:
    """The kernels of the NPU, to whose element types operators are brought."""
    kernels = {key: _by_bits(key, opsets) for key, opsets in json.loads(_table())["kernels"].items()}
    return Legalisation(KernelTable(kernels))


def _by_bits(key: str, opsets: Mapping[str, Mapping[str, str]]) -> Mapping[str, Mapping[str, str]]:
    """The measured element types of an operator; arithmetic without uint32, whose upper half the NPU takes for negative numbers."""
    if value_use(key) not in (ValueUse.RING, ValueUse.VALUE) or key == "Cast":
        return opsets
    return {
        opset: {
            variable: " ".join(name for name in types.split() if name != "u32") for variable, types in found.items()
        }
        for opset, found in opsets.items()
    }


@functools.cache
def supports(op_type: str, dtype: Dtype, opset: int) -> bool:
    """Whether the NPU runs the operator on `dtype`, natively or after legalisation; it casts bytes by way of int32."""
    return (op_type == "Cast" and np.dtype(dtype) == np.uint8) or legalisation().supports(op_type, dtype, opset)
