"""Qualcomm's NPU as a target: static models that run wholly on it, by ONNX Runtime's QNN provider, and running them."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jax2onnx_qnn.loading import compile_model, load
    from jax2onnx_qnn.target import Qnn

__all__ = ["Qnn", "compile_model", "load"]
__version__ = "0.1.0"

# The plugin module is imported with every export; what it does not need comes at first use.
_LAZY = {
    "Qnn": "jax2onnx_qnn.target",
    "compile_model": "jax2onnx_qnn.loading",
    "load": "jax2onnx_qnn.loading",
}


def __getattr__(name: str) -> object:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return vars(importlib.import_module(_LAZY[name]))[name]
