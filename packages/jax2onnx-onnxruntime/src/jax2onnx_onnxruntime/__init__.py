"""ONNX Runtime as a target: what its CPU kernels can do, legalisation, and running a model."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jax2onnx_onnxruntime.legalise import LegalisePass
    from jax2onnx_onnxruntime.runner import Runner, load
    from jax2onnx_onnxruntime.support import supports
    from jax2onnx_onnxruntime.target import OnnxRuntime

__all__ = ["LegalisePass", "OnnxRuntime", "Runner", "load", "supports"]
__version__ = "0.1.0"

# The plugin module is imported with every export; what it does not need comes at first use.
_LAZY = {
    "LegalisePass": "jax2onnx_onnxruntime.legalise",
    "OnnxRuntime": "jax2onnx_onnxruntime.target",
    "Runner": "jax2onnx_onnxruntime.runner",
    "load": "jax2onnx_onnxruntime.runner",
    "supports": "jax2onnx_onnxruntime.support",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return vars(importlib.import_module(_LAZY[name]))[name]
