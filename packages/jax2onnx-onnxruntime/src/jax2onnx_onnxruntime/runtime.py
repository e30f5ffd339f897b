"""`OrtRuntime`: ONNX Runtime as a runtime of finished models, which is imported only to run one."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from pathlib import Path

from jax2onnx_graph import ir
from jax2onnx_graph.arrays import Array
from jax2onnx_graph.limitations import Limitation
from jax2onnx_graph.metadata import StatePair
from jax2onnx_graph.targets import Target, split_name
from jax2onnx_runtime.quantization import Quantization
from jax2onnx_runtime.runtimes import LoadedModel, Runtime
from jax2onnx_runtime.states import RuntimeOptions, StatefulModel

from jax2onnx_onnxruntime.errors import explained

__all__ = ["OrtRuntime"]


class OrtRuntime(Runtime):
    """ONNX Runtime's CPU provider; models for browsers run in it, too."""

    name = "ONNX Runtime"
    targets = frozenset({"onnxruntime", "web"})
    requirement = "jax2onnx-onnxruntime[cpu]"
    adapter_suffix = ".onnx_adapter"

    @property
    def is_installed(self) -> bool:
        """Whether `onnxruntime` can be imported: which of its builds is installed is the user's choice."""
        return importlib.util.find_spec("onnxruntime") is not None

    @property
    def version(self) -> str:
        """The version of the build that is installed; empty where none is."""
        from jax2onnx_onnxruntime._compat import onnxruntime

        return str(onnxruntime().__version__) if self.is_installed else ""

    def load(self, model: ir.Model | Path) -> LoadedModel:
        """Open a session on a model, or on the file of one.

        Raises:
          TargetError: ONNX Runtime is not installed, or it refuses the model.
          ReadError: weights of the model are in a file that cannot be read.
        """
        from jax2onnx_onnxruntime.loading import load

        return load(model)

    def open(
        self,
        model: ir.Model | Path,
        states: Sequence[StatePair],
        options: RuntimeOptions,
        beside: StatefulModel | None = None,
    ) -> StatefulModel:
        """Open a session on a model whose states stay in the runtime.

        Raises:
          OptionError: an option is impossible.
          TargetError: ONNX Runtime is not installed, or it refuses the model.
        """
        from jax2onnx_onnxruntime._states import OrtStates

        with explained():
            return OrtStates(model, states, options, beside if isinstance(beside, OrtStates) else None)

    def times(self, model: ir.Model, feeds: Mapping[str, Array], runs: int) -> dict[str, float]:
        """The median of the seconds that nodes take in `runs` runs; a node with bodies includes the time of their nodes.

        Raises:
          TargetError: ONNX Runtime is not installed, or it refuses the model.
        """
        from jax2onnx_onnxruntime._profiling import node_times

        with explained():
            return node_times(model, feeds, runs)

    def limitations(self, target: Target) -> Sequence[Limitation]:
        """Limitations of the Python API of the target's version."""
        from jax2onnx_onnxruntime.limitations import limitations_of_running

        return limitations_of_running(split_name(target.name)[1])

    def quantize(self, model: ir.Model, request: Quantization, target: Target) -> ir.Model:
        """A copy of a model in fewer bits, by ONNX Runtime's own quantizers.

        Raises:
          OptionError: the request does not fit the model.
          TargetError: ONNX Runtime is not installed, or its quantizer fails.
        """
        from jax2onnx_onnxruntime._quantization.convert import quantize

        with explained():
            return quantize(model, request, target)

    def save_adapter(self, path: Path, matrices: Mapping[str, Array]) -> None:
        """Write a LoRA adapter to a file that ONNX Runtime loads by itself (`.onnx_adapter`).

        Raises:
          SaveError: nothing can be written there.
          TargetError: ONNX Runtime is not installed.
        """
        from jax2onnx_onnxruntime._adapter_files import write_adapter_file

        with explained():
            write_adapter_file(path, matrices)

    def read_adapter(self, path: Path) -> dict[str, Array]:
        """The matrices in a file of a LoRA adapter (`.onnx_adapter`), by the names of inputs.

        Raises:
          WeightsError: the file holds no adapter.
          TargetError: ONNX Runtime is not installed.
        """
        from jax2onnx_onnxruntime._adapter_files import read_adapter_file

        with explained():
            return read_adapter_file(path)
