"""ONNX Runtime as a target: the capabilities of its CPU kernels, legalisation, and running a model."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jax2onnx_onnxruntime._legalise import LegalisePass
    from jax2onnx_onnxruntime._support import supports
    from jax2onnx_onnxruntime.loading import OrtModel, load
    from jax2onnx_onnxruntime.target import OnnxRuntime

__all__ = ["LegalisePass", "OnnxRuntime", "OrtModel", "load", "supports"]
__version__ = "0.1.0"

# The plugin module is imported with every export; what it does not need comes at first use.
_LAZY = {
    "LegalisePass": "jax2onnx_onnxruntime._legalise",
    "OnnxRuntime": "jax2onnx_onnxruntime.target",
    "OrtModel": "jax2onnx_onnxruntime.loading",
    "load": "jax2onnx_onnxruntime.loading",
    "supports": "jax2onnx_onnxruntime._support",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return vars(importlib.import_module(_LAZY[name]))[name]
