"""`QnnRuntime`: Qualcomm's NPU as a runtime of finished models, or its simulation where there is none."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from pathlib import Path

from jax2onnx_graph import ir
from jax2onnx_graph.targets import Target
from jax2onnx_onnxruntime.errors import explained
from jax2onnx_onnxruntime.runtime import OrtRuntime
from jax2onnx_runtime.quantization import Quantization
from jax2onnx_runtime.runtimes import LoadedModel, Runtime

__all__ = ["QnnRuntime"]


class QnnRuntime(Runtime):
    """ONNX Runtime's QNN provider, on the NPU alone."""

    name = "QNN"
    targets = frozenset({"qnn"})
    requirement = "jax2onnx-qnn[qnn]"

    @property
    def is_installed(self) -> bool:
        """Whether the provider's library can be found."""
        return all(importlib.util.find_spec(name) is not None for name in ("onnxruntime", "onnxruntime_qnn"))

    @property
    def version(self) -> str:
        """The version of the provider; empty where it is not installed."""
        return importlib.metadata.version("onnxruntime-qnn") if self.is_installed else ""

    def load(self, model: ir.Model | Path) -> LoadedModel:
        """Prepare a model, or the file of one, for the NPU.

        Raises:
          TargetError: the provider is not installed, or does not run the whole model.
        """
        from jax2onnx_qnn.loading import load

        with explained("The NPU does not run the whole model"):
            return load(model)

    def quantize(self, model: ir.Model, request: Quantization, target: Target) -> ir.Model:
        """A copy of a model in fewer bits, by ONNX Runtime's quantizers.

        Raises:
          OptionError: the request does not fit the model.
          TargetError: ONNX Runtime is not installed, or its quantizer fails.
        """
        return OrtRuntime().quantize(model, request, target)
