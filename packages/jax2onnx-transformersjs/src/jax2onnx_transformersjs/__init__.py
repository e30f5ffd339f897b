"""Folders for transformers.js and Optimum: text generation, image classification, feature extraction with models from JAX."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jax2onnx_transformersjs.image_classification import Images
    from jax2onnx_transformersjs.writing import Task, write

__all__ = ["Images", "Task", "write"]
__version__ = "0.1.0"

# The command line imports the writer with every export; what it does not need comes at first use.
_LAZY = {
    "Images": "jax2onnx_transformersjs.image_classification",
    "Task": "jax2onnx_transformersjs.writing",
    "write": "jax2onnx_transformersjs.writing",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return vars(importlib.import_module(_LAZY[name]))[name]
