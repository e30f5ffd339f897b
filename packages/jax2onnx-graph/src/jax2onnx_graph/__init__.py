"""ONNX graphs without JAX: operator facts, a builder, passes, targets and saving."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jax2onnx_graph._ir import ir

__all__ = ["ir"]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    # ONNX takes its time to import: it comes at first use.
    if name != "ir":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()["ir"] = importlib.import_module("jax2onnx_graph._ir").ir
    return globals()["ir"]
