"""The measured table of the properties (`nan`, `wraps`, …) that kernels of ONNX Runtime's CPU provider keep.

The tables are data (`guarantees.json`, and `versions/` for older ones), written by `benchmarks/measure_ort_guarantees.py`, which runs
a small model for each operator, property and element type.
"""

from __future__ import annotations

import functools

from jax2onnx_graph.arrays import Dtype
from jax2onnx_graph.legalise.guarantees import GuaranteeTable
from jax2onnx_graph.targets import Property

from jax2onnx_onnxruntime._kernels import NEWEST, measured, table

__all__ = ["guarantees"]


@functools.cache
def _guarantees(version: str) -> GuaranteeTable:
    data = measured("guarantees", version)
    return GuaranteeTable(data["guarantees"], table(version), data["opset"])


def guarantees(op_type: str, dtype: Dtype, kept: Property, version: str = NEWEST) -> bool:
    """Whether ONNX Runtime's kernel keeps a property of an operator; see `Target.guarantees`."""
    return _guarantees(version).keeps(op_type, dtype, kept)
