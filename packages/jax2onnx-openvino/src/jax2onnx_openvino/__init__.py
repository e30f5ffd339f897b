"""OpenVINO as a target: the operators that its CPU plugin computes right, legalisation, and running a model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jax2onnx_graph.lazy import lazy_names

if TYPE_CHECKING:
    from jax2onnx_openvino.loading import OpenVinoModel, load
    from jax2onnx_openvino.target import OpenVino

__all__ = ["OpenVino", "OpenVinoModel", "load"]
__version__ = "0.1.0"

# The plugin module is imported with every export; what it does not need comes at first use.
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "jax2onnx_openvino.loading": ("OpenVinoModel", "load"),
        "jax2onnx_openvino.target": ("OpenVino",),
    },
)
