"""ONNX Runtime, imported when it is needed: which of its builds is installed is the user's choice."""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.metadata
import logging
from types import ModuleType
from typing import Any

from jax2onnx_runtime.runtimes import import_runtime

__all__ = ["block_quantizer", "installed_version", "onnxruntime", "quantization", "refusals"]

#: The distributions that hold the module `onnxruntime`.
_BUILDS = ("onnxruntime", "onnxruntime-gpu", "onnxruntime-openvino", "onnxruntime-directml", "onnxruntime-qnn")


@functools.cache
def onnxruntime() -> ModuleType:
    """The `onnxruntime` module.

    Raises:
      ModuleNotFoundError: it is not installed; the message names the extras that install it.
    """
    return import_runtime(
        "onnxruntime",
        "Running a model needs ONNX Runtime, which is not installed. Install its CPU build with "
        "`pip install 'jax2onnx-onnxruntime[cpu]'` or its CUDA build with "
        "`pip install 'jax2onnx-onnxruntime[gpu]'`.",
    )


@functools.cache
def installed_version() -> str | None:
    """The version of ONNX Runtime that is installed, in whichever build, without importing it; None where there is none."""
    for build in _BUILDS:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            return importlib.metadata.version(build)
    return None


def refusals() -> tuple[type[Exception], ...]:
    """The errors with which ONNX Runtime refuses a model or a file; none where it is not installed."""
    try:
        state = onnxruntime().capi.onnxruntime_pybind11_state
    except ModuleNotFoundError:
        return ()
    return (
        state.Fail, state.InvalidArgument, state.InvalidGraph, state.InvalidProtobuf, state.NoSuchFile, state.NotImplemented,
        state.RuntimeException,
    )  # fmt: skip


def quantization() -> ModuleType:
    """ONNX Runtime's quantizers of activations and weights.

    Raises:
      ModuleNotFoundError: ONNX Runtime is not installed.
    """
    onnxruntime()
    return importlib.import_module("onnxruntime.quantization")


def block_quantizer() -> Any:
    """The class of ONNX Runtime's quantizer of weights in blocks: `matmul_nbits_quantizer.MatMulNBitsQuantizer`.

    Its module configures the root logger when it is imported, which is the application's to do.
    """
    onnxruntime()
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    try:
        module = importlib.import_module("onnxruntime.quantization.matmul_nbits_quantizer")
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
    return module.MatMulNBitsQuantizer
