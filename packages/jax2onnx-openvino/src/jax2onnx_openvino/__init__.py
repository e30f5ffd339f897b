"""OpenVINO as a target: the operators that its CPU plugin computes right, legalisation, and running a model."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jax2onnx_openvino.loading import OpenVinoModel, load
    from jax2onnx_openvino.target import OpenVino

__all__ = ["OpenVino", "OpenVinoModel", "load"]
__version__ = "0.1.0"

# The plugin module is imported with every export; what it does not need comes at first use.
_LAZY = {
    "OpenVino": "jax2onnx_openvino.target",
    "OpenVinoModel": "jax2onnx_openvino.loading",
    "load": "jax2onnx_openvino.loading",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return vars(importlib.import_module(_LAZY[name]))[name]
