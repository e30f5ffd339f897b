"""`Step`: a change of a program's model, kept so that it is made again of the model that is lowered anew."""

from __future__ import annotations

import dataclasses
import glob
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from jax2onnx_graph import ir
from jax2onnx_graph.errors import OptionError
from jax2onnx_graph.metadata import ModelMetadata
from jax2onnx_graph.targets import Target
from jax2onnx_graph.weights.binding import GivenWeights

from jax2onnx_runtime.mixed_bits import MixedBits, read_mixed_bits, write_mixed_bits
from jax2onnx_runtime.quantization import Quantization
from jax2onnx_runtime.runtimes import Runtime

__all__ = ["AdaptersMerged", "AdaptersOpened", "Described", "ModelReplaced", "Quantized", "Step", "WeightsGiven"]


class Step(ABC):
    """A change of a program's model."""

    @abstractmethod
    def apply(self, model: ir.Model, runtime: Runtime, target: Target) -> ir.Model:
        """A model that is changed.

        Args:
          model: the model, which stays as it is.
          runtime: what runs it.
          target: what it is made for.
        """

    def sent(self) -> Step:
        """The step as another process knows it, which has its result and never makes it again: without sources and examples."""
        return self


@dataclasses.dataclass(frozen=True)
class WeightsGiven(Step):
    """Weights that were absent are bound to a source.

    Attributes:
      weights: the source; None in another process.
    """

    weights: GivenWeights | None

    def apply(self, model: ir.Model, runtime: Runtime, target: Target) -> ir.Model:
        """The model whose weights are read when it is saved or run."""
        from jax2onnx_graph.weights.binding import bound_model

        assert self.weights is not None, "it is applied where it was made"
        return bound_model(model, self.weights)

    def sent(self) -> Step:
        """The step without its source."""
        return WeightsGiven(None)


@dataclasses.dataclass(frozen=True)
class AdaptersOpened(Step):
    """The matrices of LoRA adapters became optional inputs.

    Attributes:
      names: those of the matrices.
      exported: those with which the function was exported, as far as they were not absent.
    """

    names: Sequence[str]
    exported: Mapping[str, ir.TensorProtocol]

    def apply(self, model: ir.Model, runtime: Runtime, target: Target) -> ir.Model:
        """The model that takes the matrices."""
        from jax2onnx_runtime.adapters.optional_inputs import with_optional_adapters

        return with_optional_adapters(model, _exactly(self.names))

    def sent(self) -> Step:
        """The step with its matrices as arrays."""
        return AdaptersOpened(self.names, {name: ir.tensor(tensor.numpy()) for name, tensor in self.exported.items()})


@dataclasses.dataclass(frozen=True)
class AdaptersMerged(Step):
    """The products of LoRA adapters were added to the weights that they belong to.

    Attributes:
      names: those of the matrices.
      given: the matrices that were read in place of the exported ones; empty for these.
    """

    names: Sequence[str]
    given: Mapping[str, ir.TensorProtocol] = dataclasses.field(default_factory=dict)

    def apply(self, model: ir.Model, runtime: Runtime, target: Target) -> ir.Model:
        """The model with the matrices in its weights."""
        from jax2onnx_runtime.adapters.merging import with_merged_adapters
        from jax2onnx_runtime.adapters.optional_inputs import exported_matrices

        return with_merged_adapters(model, _exactly(self.names), lambda pairs: self.given or exported_matrices(pairs))

    def sent(self) -> Step:
        """The step without its matrices."""
        return AdaptersMerged(self.names)


@dataclasses.dataclass(frozen=True)
class Quantized(Step):
    """The model was made one of fewer bits.

    Attributes:
      request: how, with the bits of each weight where these were chosen; None in another process.
      chosen: the choice, if there was one, which the model tells.
    """

    request: Quantization | None
    chosen: MixedBits | None = None

    def apply(self, model: ir.Model, runtime: Runtime, target: Target) -> ir.Model:
        """The model in fewer bits, which says of itself what it said before."""
        assert self.request is not None, "it is applied where it was made"
        result = runtime.installed().quantize(model, self.request, target)
        result.model_version, result.doc_string, result.domain = model.model_version, model.doc_string, model.domain
        result.producer_name, result.producer_version = model.producer_name, model.producer_version
        if self.chosen is not None:
            write_mixed_bits(result, self.chosen)
        return result

    def settled(self, model: ir.Model) -> Quantized:
        """The step that makes the same of a specialization: with the bits that were chosen for `model`, which it made."""
        assert self.request is not None
        chosen = None if self.request.tolerance is None else read_mixed_bits(model)
        request = dataclasses.replace(self.request, memory=None)
        if chosen is not None:
            bits = {weight.name: weight.bits for weight in chosen.weights}
            examples = request.calibration if request.mode == "static_int8" else None
            request = dataclasses.replace(request, tolerance=None, calibration=examples, bits=bits)
        return Quantized(request, chosen)

    def sent(self) -> Step:
        """The step without its request, which may have examples."""
        return Quantized(None, self.chosen)


@dataclasses.dataclass(frozen=True)
class Described(Step):
    """The model was told what to say of itself.

    Attributes:
      metadata: what it says.
    """

    metadata: ModelMetadata

    def apply(self, model: ir.Model, runtime: Runtime, target: Target) -> ir.Model:
        """The model that says so."""
        described = model.clone()
        self.metadata.write(described)
        return described


@dataclasses.dataclass(frozen=True)
class ModelReplaced(Step):
    """Another model took the place of the one that was there, which nothing makes again."""

    def apply(self, model: ir.Model, runtime: Runtime, target: Target) -> ir.Model:
        """Raises OptionError."""
        raise OptionError(
            "This program has a model that was given by with_model, which nothing makes anew of the function: call specialize before "
            "with_model, and give it a model of these sizes."
        )


def _exactly(names: Sequence[str]) -> list[str]:
    """Patterns that fit these names alone."""
    return [glob.escape(name) for name in names]
