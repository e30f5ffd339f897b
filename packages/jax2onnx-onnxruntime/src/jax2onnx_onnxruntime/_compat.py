"""ONNX Runtime, imported when it is needed: which of its builds is installed is the user's choice."""

from __future__ import annotations

import importlib
from types import ModuleType

__all__ = ["onnxruntime"]


def onnxruntime() -> ModuleType:
    """The `onnxruntime` module.

    Raises:
      ModuleNotFoundError: it is not installed; the message names the extras that install it.
    """
    try:
        return importlib.import_module("onnxruntime")
    except ModuleNotFoundError as error:
        if error.name != "onnxruntime":
            raise
        raise ModuleNotFoundError(
            "Running a model needs ONNX Runtime, which is not installed. Install its CPU build with "
            "`pip install 'jax2onnx-onnxruntime[cpu]'` or its CUDA build with "
            "`pip install 'jax2onnx-onnxruntime[gpu]'`.",
            name="onnxruntime",
        ) from None
