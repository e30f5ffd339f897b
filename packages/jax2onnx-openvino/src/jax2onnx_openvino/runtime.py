"""`OpenVinoRuntime`: OpenVINO's CPU plugin as a runtime of finished models, which is imported only to run one."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path

from jax2onnx_graph import ir
from jax2onnx_graph.errors import OptionError, TargetError
from jax2onnx_graph.metadata import StatePair
from jax2onnx_graph.options import check_count
from jax2onnx_graph.saving.reading import read_model
from jax2onnx_runtime.runtimes import LoadedModel, Runtime
from jax2onnx_runtime.states import NumpyStates, RuntimeOptions, StatefulModel

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

    @property
    def version(self) -> str:
        """The version that is installed, without the number of its build; empty where it is not."""
        from jax2onnx_openvino.loading import openvino

        return str(openvino().__version__).partition("-")[0] if self.is_installed else ""

    def load(self, model: ir.Model | Path) -> LoadedModel:
        """Compile a model, or the file of one, for the CPU.

        Raises:
          TargetError: OpenVINO is not installed, or it refuses the model.
        """
        return self._loaded(model, None)

    def open(
        self,
        model: ir.Model | Path,
        states: Sequence[StatePair],
        options: RuntimeOptions,
        beside: StatefulModel | None = None,
    ) -> StatefulModel:
        """Compile a model for the CPU, with a number of threads; its states are kept as NumPy arrays.

        Raises:
          OptionError: the plugin has no such options.
          TargetError: OpenVINO is not installed, or it refuses the model.
        """
        if others := [option for option in options.given() if option != "threads"]:
            raise OptionError(f"{self.name} takes the option threads here; it has no {', '.join(others)}.")
        check_count("threads", options.threads, least=1)
        described = model if isinstance(model, ir.Model) else read_model(model)
        kept = beside if isinstance(beside, NumpyStates) else None
        return NumpyStates(described, states, self._loaded(model, options.threads), kept)

    def _loaded(self, model: ir.Model | Path, threads: int | None) -> LoadedModel:
        from jax2onnx_openvino.loading import load

        try:
            return load(model, threads=threads)
        except ModuleNotFoundError as error:
            raise TargetError(str(error)) from error
        except RuntimeError as error:
            raise TargetError(f"OpenVINO cannot load the model: {error}") from error
