"""The measured table of the operators and element types that ONNX Runtime's CPU provider runs.

The tables are data (`kernels.json` for the newest version of ONNX Runtime, `versions/` for older ones and for the one in browsers),
written by `benchmarks/measure_ort_kernels.py` and `benchmarks/measure_web.py`, which build, load and run a model of one node for each operator,
opset and element type.
"""

from __future__ import annotations

import functools
import importlib.resources
import json
import re
from collections.abc import Mapping
from typing import Any

import onnx_ir as ir
from jax2onnx_graph.legalise.kernels import KernelTable

__all__ = [
    "NEWEST",
    "WEB",
    "is_since",
    "kernels",
    "measured",
    "measured_opsets",
    "measured_versions",
    "table",
]

#: The newest version of ONNX Runtime that was measured, wherever a version is asked for.
NEWEST = ""

#: ONNX Runtime Web, whose kernels in WebAssembly are those of a version, not all of them.
WEB = "web"


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
    found = (re.fullmatch(r"kernels-([\d.]+)\.json", file.name) for file in files)
    names = [name[1] for name in found if name]
    older = sorted(names, key=lambda version: [int(part) for part in version.split(".")])
    newest = ".".join(measured("kernels")["onnxruntime"].split(".")[:2])
    return {**{version: version for version in older}, newest: NEWEST}


def is_since(version: str, first: str) -> bool:
    """Whether a version of ONNX Runtime is `first` or a later one, as far as that is known: the one in browsers is none."""
    if version in (NEWEST, WEB):
        return version == NEWEST
    return [int(part) for part in version.split(".")] >= [int(part) for part in first.split(".")]


def measured_opsets(version: str = NEWEST) -> range:
    """The versions of the standard operators that a version of ONNX Runtime runs."""
    lowest, highest = measured("kernels", version)["opsets"]
    return range(lowest, highest + 1)


@functools.cache
def table(version: str = NEWEST) -> KernelTable:
    """The operators and element types that a version of ONNX Runtime computes. In browsers bytes carry nothing: WebGPU has no kernels for them."""
    narrow = {ir.DataType.UINT8, ir.DataType.INT8} if version == WEB else set[ir.DataType]()
    return KernelTable(measured("kernels", version)["kernels"], frozenset(narrow))


def kernels(key: str, variable: str, opset: int, version: str = NEWEST) -> frozenset[ir.DataType] | None:
    """The element types with which the operator `key` runs natively when `variable` is bound to them.

    `key` is the operator's name, with its reduction where it has one (`"ScatterND_add"`), `version` that of ONNX Runtime. None
    where nothing was measured.
    """
    return table(version).types(key, variable, opset)
