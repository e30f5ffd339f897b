"""`OpenVinoRuntime`: OpenVINO's CPU plugin as a runtime of finished models, which is imported only to run one."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from jax2onnx_graph import ir
from jax2onnx_graph.errors import TargetError
from jax2onnx_runtime.runtimes import LoadedModel, Runtime

__all__ = ["OpenVinoRuntime"]


class OpenVinoRuntime(Runtime):
    """OpenVINO with its CPU plugin."""

    name = "OpenVINO"
    targets = frozenset({"openvino"})
    requirement = "jax2onnx-openvino[openvino]"

    @property
    def is_installed(self) -> bool:
        """Whether `openvino` can be imported."""
        return importlib.util.find_spec("openvino") is not None

    def load(self, model: ir.Model | Path) -> LoadedModel:
        """Compile a model, or the file of one, for the CPU.

        Raises:
          TargetError: OpenVINO is not installed, or it refuses the model.
        """
        from jax2onnx_openvino.loading import load

        try:
            return load(model)
        except ModuleNotFoundError as error:
            raise TargetError(str(error)) from error
        except RuntimeError as error:
            raise TargetError(f"OpenVINO cannot load the model: {error}") from error
