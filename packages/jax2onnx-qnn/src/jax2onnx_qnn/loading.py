"""Running a model on the HTP, Qualcomm's NPU, by ONNX Runtime's QNN provider: all of it, or an error.

The library of the provider simulates the NPU on processors of x86-64.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from jax2onnx_graph import ir
from jax2onnx_onnxruntime import OrtModel
from jax2onnx_runtime.runtimes import import_runtime

if TYPE_CHECKING:
    import onnxruntime as ort

__all__ = ["PROVIDER", "compile_model", "load", "provider"]

PROVIDER = "QNNExecutionProvider"

#: Models are prepared for the NPU of this generation and this chip: Snapdragon 8 Gen 3, which the provider's own tests use.
DEVICE = {"htp_arch": "75", "soc_model": "57"}


def provider() -> ModuleType:
    """The module with the provider's libraries.

    Raises:
      ModuleNotFoundError: it is not installed; the message names the extra that installs it.
    """
    return import_runtime(
        "onnxruntime_qnn",
        "Running a model on the NPU needs ONNX Runtime's QNN provider, which is not installed. Install it with "
        "`pip install 'jax2onnx-qnn[qnn]'`.",
    )


@functools.cache
def devices() -> Sequence[object]:
    """The devices of the provider, whose library ONNX Runtime loads once in a process."""
    from onnxruntime import get_ep_devices, register_execution_provider_library

    register_execution_provider_library(PROVIDER, provider().get_library_path())
    return [device for device in get_ep_devices() if device.ep_name == PROVIDER]


def load(source: ir.Model | Path | bytes, *, whole: bool = True) -> OrtModel:
    """Prepare a model, its bytes, or the file of one, for the NPU.

    Args:
      source: the model to run.
      whole: whether all of it has to run on the NPU; otherwise ONNX Runtime's CPU provider runs what cannot.
    """
    model = OrtModel(source, (), options=_options(whole=whole))
    model.session.disable_fallback()  # a run that fails on the NPU would be repeated on the processor
    return model


def compile_model(source: ir.Model | Path | bytes, path: str | os.PathLike[str]) -> Path:
    """Write a model as the NPU runs it (EPContext): one node that holds its program, which a device loads without preparing it anew.

    Args:
      source: the model.
      path: the file to write, `model.onnx`; a present one is replaced.
    """
    path = Path(path)
    path.unlink(missing_ok=True)
    options = _options(whole=True)
    for name, value in (("enable", "1"), ("file_path", str(path)), ("embed_mode", "1")):
        options.add_session_config_entry(f"ep.context_{name}", value)
    OrtModel(source, (), options=options)
    return path


def _options(*, whole: bool) -> ort.SessionOptions:
    from onnxruntime import SessionOptions

    options = SessionOptions()
    options.log_severity_level = 4  # what it refuses, it says in its error
    if whole:
        options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    options.add_provider_for_devices(devices(), {"backend_path": provider().get_qnn_htp_path(), **DEVICE})
    return options
