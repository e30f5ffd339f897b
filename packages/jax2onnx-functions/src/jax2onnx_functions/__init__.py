"""Python callables as reusable ONNX functions, and operators of other domains."""

from __future__ import annotations

from jax2onnx_functions.function import onnx_function
from jax2onnx_functions.operator import custom_op

__all__ = ["custom_op", "onnx_function"]

__version__ = "0.1.0"
