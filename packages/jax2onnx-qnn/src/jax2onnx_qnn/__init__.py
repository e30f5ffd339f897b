"""Qualcomm's NPU as a target: static models that run wholly on it, by ONNX Runtime's QNN provider, and running them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jax2onnx_graph.lazy import lazy_names

if TYPE_CHECKING:
    from jax2onnx_qnn.loading import compile_model, load
    from jax2onnx_qnn.target import Qnn

__all__ = ["Qnn", "compile_model", "load"]
__version__ = "0.1.0"

# The plugin module is imported with every export; what it does not need comes at first use.
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "jax2onnx_qnn.loading": ("compile_model", "load"),
        "jax2onnx_qnn.target": ("Qnn",),
    },
)
