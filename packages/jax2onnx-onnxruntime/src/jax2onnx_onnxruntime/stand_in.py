"""`OrtStandIn`: ONNX Runtime as the runtime of models that were made for a runtime which does not run here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from jax2onnx_graph import ir
from jax2onnx_graph.arrays import Array
from jax2onnx_graph.limitations import Limitation
from jax2onnx_graph.metadata import StatePair
from jax2onnx_graph.passes import make_names_unique
from jax2onnx_graph.targets import Target
from jax2onnx_runtime.quantization import Quantization
from jax2onnx_runtime.runtimes import LoadedModel
from jax2onnx_runtime.states import RuntimeOptions, StatefulModel

from jax2onnx_onnxruntime.runtime import OrtRuntime

__all__ = ["OrtStandIn"]

_LIMITATIONS = (
    Limitation(
        "NaN in ONNX Runtime",
        "ONNX Runtime, which runs the models here, loses NaN in extrema, in their positions and in pooling.",
        operators=("ArgMax", "ArgMin", "MaxPool", "ReduceMax", "ReduceMin", "ScatterElements", "ScatterND"),
        message="differs from JAX", values=("NaN", "infinities"),
    ),
    Limitation(
        "means of nothing in ONNX Runtime",
        "ONNX Runtime, which runs the models here, gives 0 as the mean of no elements, where TensorRT gives NaN by its documentation.",
        operators=("ReduceMean",), cases=("*empty*",), message="differs from JAX",
    ),
)  # fmt: skip


class OrtStandIn(OrtRuntime):
    """ONNX Runtime's CPU provider for models for TensorRT, which needs a GPU: it computes the models as ONNX defines them.

    A copy of the model is adapted to the CPU provider, as a model without a target is. Where the user names other providers, such
    as `providers=["TensorrtExecutionProvider"]`, they get the model as it is.
    """

    targets = frozenset({"tensorrt"})

    @property
    def title(self) -> str:
        """The name with the version, and what it stands in for."""
        return f"{super().title} in the place of TensorRT"

    def load(self, model: ir.Model | Path) -> LoadedModel:
        """Open a session on an adapted copy of a model, or of the file of one.

        Raises:
          TargetError: ONNX Runtime is not installed, or it refuses the model.
        """
        return super().load(_adapted(model))

    def open(
        self, model: ir.Model | Path, states: Sequence[StatePair], options: RuntimeOptions,
        beside: StatefulModel | None = None,
    ) -> StatefulModel:  # fmt: skip
        """Open a session on a model whose states stay in the runtime.

        Raises:
          OptionError: an option is impossible.
          TargetError: ONNX Runtime is not installed, or it refuses the model.
        """
        return super().open(model if options.providers else _adapted(model), states, options, beside)

    def times(self, model: ir.Model, feeds: Mapping[str, Array], runs: int) -> dict[str, float]:
        """The median of the seconds that the nodes of the adapted copy take.

        Raises:
          TargetError: ONNX Runtime is not installed, or it refuses the model.
        """
        return super().times(_adapted(model), feeds, runs)

    def quantize(self, model: ir.Model, request: Quantization, target: Target) -> ir.Model:
        """A copy of a model in fewer bits, which the target takes by its own tables.

        Raises:
          ConversionError: the target has no operators for the mode.
          OptionError: nothing can be quantised, or an option is wrong.
          TargetError: ONNX Runtime is not installed, or its quantizer fails.
        """
        result = super().quantize(model, request, target)
        for factory in target.passes():
            factory(target)(result)
        make_names_unique(result)
        return result

    def limitations(self, target: Target) -> Sequence[Limitation]:
        """The special values that the CPU provider loses in models that were made without regard to it."""
        return _LIMITATIONS


def _adapted(model: ir.Model | Path) -> ir.Model:
    from jax2onnx_graph.saving.reading import read_model

    from jax2onnx_onnxruntime.target import OnnxRuntime

    copy = read_model(model) if isinstance(model, Path) else model.clone()
    target = OnnxRuntime().installed()
    for factory in target.passes():
        factory(target)(copy)
    make_names_unique(copy)
    return copy
