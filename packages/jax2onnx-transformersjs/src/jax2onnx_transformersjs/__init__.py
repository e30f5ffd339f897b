"""Folders for transformers.js and Optimum: text generation, image classification, feature extraction with models from JAX."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jax2onnx_graph.lazy import lazy_names

if TYPE_CHECKING:
    from jax2onnx_transformersjs.image_classification import Images
    from jax2onnx_transformersjs.writing import Task, write

__all__ = ["Images", "Task", "write"]
__version__ = "0.1.0"

# The command line imports the writer with every export; what it does not need comes at first use.
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "jax2onnx_transformersjs.image_classification": ("Images",),
        "jax2onnx_transformersjs.writing": ("Task", "write"),
    },
)
