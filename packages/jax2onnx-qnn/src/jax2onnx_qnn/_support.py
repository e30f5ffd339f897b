"""The measured table of operators and element types that run wholly on the NPU, and right: `kernels.json`.

It is written by `benchmarks/measure_qnn.py`, which builds, runs and compares a model of one node for each operator and element type.
"""

from __future__ import annotations

import functools
import importlib.resources
import json

from jax2onnx_graph.arrays import Dtype
from jax2onnx_graph.legalise.kernels import KernelTable
from jax2onnx_graph.legalise.legalisation import Legalisation

from jax2onnx_qnn._rewrites import REWRITES

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
    """The kernels, and the decompositions by which the NPU computes other operators."""
    return Legalisation(KernelTable(json.loads(_table())["kernels"]), REWRITES)


@functools.cache
def supports(op_type: str, dtype: Dtype, opset: int) -> bool:
    """Whether the NPU runs the operator on `dtype`, natively or after legalisation."""
    return legalisation().supports(op_type, dtype, opset)
