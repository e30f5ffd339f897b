"""ONNX graphs without JAX: operator facts, a builder, passes, targets and saving."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jax2onnx_graph.lazy import lazy_names

if TYPE_CHECKING:
    from jax2onnx_graph._ir import ir

__all__ = ["ir"]

__version__ = "0.1.0"

# ONNX takes its time to import: it comes at first use.
__getattr__, __dir__ = lazy_names(__name__, {"jax2onnx_graph._ir": ("ir",)})
