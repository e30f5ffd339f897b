"""ONNX Runtime as a target: the capabilities of its CPU kernels, legalisation, and running a model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jax2onnx_graph.lazy import lazy_names

if TYPE_CHECKING:
    from jax2onnx_onnxruntime._legalise import LegalisePass
    from jax2onnx_onnxruntime._support import supports
    from jax2onnx_onnxruntime.loading import OrtModel, load
    from jax2onnx_onnxruntime.target import OnnxRuntime

__all__ = ["LegalisePass", "OnnxRuntime", "OrtModel", "load", "supports"]
__version__ = "0.1.0"

# The plugin module is imported with every export; what it does not need comes at first use.
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "jax2onnx_onnxruntime._legalise": ("LegalisePass",),
        "jax2onnx_onnxruntime._support": ("supports",),
        "jax2onnx_onnxruntime.loading": ("OrtModel", "load"),
        "jax2onnx_onnxruntime.target": ("OnnxRuntime",),
    },
)
