"""`QuantizedProgram`: an exported program in fewer bits."""

from __future__ import annotations

import copy
import dataclasses
import functools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from jax2onnx_graph import ir
from jax2onnx_graph.arrays import Array
from jax2onnx_graph.errors import OptionError
from jax2onnx_graph.metadata import ModelMetadata
from jax2onnx_graph.opsets import opset_of
from jax2onnx_graph.saving.signing import Signer
from jax2onnx_graph.targets import Target
from jax2onnx_graph.weights.binding import GivenWeights
from jax2onnx_runtime.accuracy import Accuracy, accuracy
from jax2onnx_runtime.adapters.program_adapters import Adapters
from jax2onnx_runtime.benchmarks import Contender
from jax2onnx_runtime.bisection import Bisection
from jax2onnx_runtime.comparison import OutputError
from jax2onnx_runtime.mixed_bits import MixedBits, read_mixed_bits
from jax2onnx_runtime.portable import Measurements, PortableProgram
from jax2onnx_runtime.quantization import Mode, Quantization
from jax2onnx_runtime.runtimes import LoadedModel, Runtime
from jax2onnx_runtime.session import ModelSession
from jax2onnx_runtime.sizes import Ranges, Sizes
from jax2onnx_runtime.stages import Stages
from jax2onnx_runtime.state_values import StateSizes
from jax2onnx_runtime.states import RuntimeOptions

from jax2onnx_core.jax_types import PyTree
from jax2onnx_core.lowering._log import LoweringLog
from jax2onnx_core.program._callable_model import CallableModel, given_run
from jax2onnx_core.program._reference import ReferenceFunction
from jax2onnx_core.program.interface import Interface
from jax2onnx_core.program.verification import Run

if TYPE_CHECKING:
    import onnx

__all__ = ["Original", "QuantizedProgram", "quantized"]


class Original(Protocol):
    """A program that can be quantised: an `OnnxProgram`, or a `QuantizedProgram` once more."""

    @property
    def model(self) -> ir.Model: ...
    @property
    def interface(self) -> Interface: ...
    @property
    def runtime(self) -> Runtime: ...
    @property
    def target(self) -> Target: ...
    @property
    def log(self) -> LoweringLog: ...
    @property
    def reference(self) -> ReferenceFunction: ...
    @property
    def given(self) -> GivenWeights | None: ...
    @property
    def metadata(self) -> ModelMetadata | None: ...
    @property
    def loaded(self) -> LoadedModel: ...
    @property
    def input_names(self) -> list[str]: ...
    @property
    def output_names(self) -> list[str]: ...
    @property
    def constraints(self) -> list[str]: ...

    def feeds(self, *args: PyTree, **kwargs: PyTree) -> dict[str, Array]: ...
    def random_calls(self, sizes: Sequence[Sizes] | None, ranges: Ranges, seed: int) -> Iterator[Run]: ...
    def specialize(self, **values: int) -> Original: ...


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class QuantizedProgram:
    """A program in fewer bits, which is called like the one that it was made from.

    Attributes:
      original: the program in full precision.
      model: the `onnx_ir.Model` in fewer bits.
      request: how it was quantised.
      metadata: what the model was told to say of itself.
      measurements: what `verify` and `profile` found.
    """

    original: Original
    model: ir.Model
    request: Quantization
    metadata: ModelMetadata | None = None
    measurements: Measurements = dataclasses.field(default_factory=Measurements)

    @functools.cached_property
    def interface(self) -> Interface:
        """The interface of the original, with inputs in half precision where the model takes that."""
        return self.original.interface.with_element_types(self.model)

    @functools.cached_property
    def _callable(self) -> CallableModel:
        return CallableModel(self.model, self.interface, self.runtime, self.target, self.log, self.measurements)

    @property
    def runtime(self) -> Runtime:
        """The runtime that runs the model here."""
        return self.original.runtime

    @property
    def target(self) -> Target:
        """The target that the model is made for."""
        return self.original.target

    @property
    def reference(self) -> ReferenceFunction:
        """The exported function."""
        return self.original.reference

    @property
    def given(self) -> GivenWeights | None:
        """The weights that were given because they were absent."""
        return self.original.given

    @property
    def log(self) -> LoweringLog:
        """The record of how each operation was lowered."""
        return self.original.log

    def __reduce__(self) -> tuple[object, ...]:
        return self.portable().__reduce__()

    def __copy__(self) -> QuantizedProgram:
        return dataclasses.replace(self)

    def __deepcopy__(self, memo: dict[int, object]) -> QuantizedProgram:
        return dataclasses.replace(self, model=self.model.clone(), measurements=copy.deepcopy(self.measurements, memo))

    def portable(self) -> PortableProgram:
        """The program without the one in full precision; see `OnnxProgram.portable`."""
        return self._callable.portable()

    @property
    def model_proto(self) -> onnx.ModelProto:
        """The model as a protobuf message (a copy; at most 2 GiB)."""
        return self._callable.proto()

    @property
    def opset(self) -> int:
        """The version of the standard operators that the model declares."""
        return opset_of(self.model)

    @property
    def input_names(self) -> list[str]:
        """The names of the model's inputs, in order."""
        return self.original.input_names

    @property
    def output_names(self) -> list[str]:
        """The names of the model's outputs, in order."""
        return self.original.output_names

    @property
    def constraints(self) -> list[str]:
        """The constraints of the original."""
        return self.original.constraints

    def specialize(self, **values: int) -> QuantizedProgram:
        """The program with these symbols fixed to numbers, quantised likewise, with the same bits in each weight."""
        request, chosen = self.request, self.bits
        if chosen is not None:
            bits = {weight.name: weight.bits for weight in chosen.weights}
            request = dataclasses.replace(request, tolerance=None, calibration=None, bits=bits)
        return quantized(self.original.specialize(**values), request)

    @property
    def bits(self) -> MixedBits | None:
        """How many bits each weight got so that the tolerance is held, and why; None without a tolerance."""
        return read_mixed_bits(self.model)

    def with_metadata(self, metadata: ModelMetadata) -> QuantizedProgram:
        """The program whose model says of itself what `metadata` says: a name, a version, a text, entries of your own."""
        return dataclasses.replace(self, model=self._callable.described(metadata), metadata=metadata)

    # -- saving and reporting ------------------------------------------------------------------

    def save(
        self, path: str | os.PathLike[str], *, external_data: bool | None = None, threshold: int = 1024,
        data_file: str | None = None, sign: str | os.PathLike[str] | Signer | None = None,
    ) -> Path:  # fmt: skip
        """Write the model to a file, atomically; see `save_model`."""
        return self._callable.save(path, external_data, threshold, data_file, sign)

    def save_variants(self, directory: str | os.PathLike[str], **variants: Mapping[str, int]) -> list[Path]:
        """Save specializations of this program that share one file of weights; see `OnnxProgram.save_variants`."""
        return self._callable.save_variants(directory, self.specialize, variants)

    def split(self, *, max_bytes: int | None = None, at: Sequence[str] | None = None) -> Stages:
        """Cut the program between modules into stages; see `OnnxProgram.split`."""
        return Stages.of(self.model, self.runtime, max_bytes=max_bytes, at=at)

    def __repr__(self) -> str:
        return self._callable.summary()

    def _repr_html_(self) -> str:
        return self._callable.cell()

    def report(self) -> str:
        """A readable summary; see `OnnxProgram.report`."""
        return self._callable.report()

    def save_report(self, path: str | os.PathLike[str]) -> Path:
        """Write the report as an HTML page; see `OnnxProgram.save_report`."""
        return self._callable.save_report(path)

    @property
    def accuracy(self) -> Accuracy | None:
        """The accuracy that the last verification found."""
        return self.measurements.accuracy

    @property
    def verified(self) -> list[OutputError]:
        """Empty: `verify` tells the accuracy."""
        return self.measurements.verified

    @property
    def times(self) -> dict[str, float]:
        """Seconds by the names of nodes, of the last `profile`."""
        return self.measurements.times

    # -- running -----------------------------------------------------------------------------

    @property
    def loaded(self) -> LoadedModel:
        """The loaded model: named arrays → outputs in order."""
        return self._callable.loaded

    def __call__(self, *args: PyTree, **kwargs: PyTree) -> PyTree:
        """Run the model on the arguments of the exported function."""
        return self._callable.call(args, kwargs)

    @functools.cached_property
    def adapters(self) -> Adapters:
        """The LoRA adapters that the model takes; see `OnnxProgram.with_adapters`, which comes before quantising."""
        return self._callable.adapters()

    def feeds(self, *args: PyTree, **kwargs: PyTree) -> dict[str, Array]:
        """The model's inputs for these arguments, in half precision where the model takes that."""
        return self.interface.feeds(args, kwargs)

    def results(self, outputs: Sequence[Array]) -> PyTree:
        """The result of the function where the model has these outputs."""
        return self.interface.results(outputs)

    def random_calls(self, sizes: Sequence[Sizes] | None, ranges: Ranges, seed: int) -> Iterator[Run]:
        """Calls with random arguments, at several sizes; see `verify`."""
        return self.original.random_calls(sizes, ranges, seed)

    def profile(self, *args: object, **kwargs: object) -> dict[str, float]:
        """Measure how long each node takes; see `OnnxProgram.profile`."""
        return self._callable.profile(args, kwargs)

    def session(
        self, *, initial: Mapping[int | str, PyTree] | None = None, sizes: Sizes | None = None,
        window: Sizes | None = None, limits: Sizes | None = None, threads: int | None = None,
        providers: Sequence[object] | None = None, session_options: object = None, graph_optimization_level: str | None = None,
    ) -> ModelSession:  # fmt: skip
        """Load the model to run it step by step; see `OnnxProgram.session`."""
        options = RuntimeOptions(threads, providers, session_options, graph_optimization_level)
        return self._callable.session(initial, StateSizes(sizes or {}, window or {}, limits or {}), options)

    # -- comparing with full precision -----------------------------------------------------------

    def verify(
        self, data: Iterable[object] | None = None, *, sizes: Sequence[Sizes] | None = None, ranges: Ranges | None = None,
        seed: int = 0, loss: Callable[..., float] | None = None,
    ) -> Accuracy:  # fmt: skip
        """The differences from the program in full precision.

        Args:
          data: the arguments of calls, as for calibration; by default random ones, which tell little of a trained model.
          sizes: symbols → numbers, one mapping per run with random arguments.
          ranges: input name → `(low, high)` of its random numbers.
          seed: that of the random arguments.
          loss: `loss(result, *args)`, of which the mean over the calls is reported for both programs.

        Raises:
          OptionError: there are no calls.
        """
        if loss is not None and not callable(loss):
            raise OptionError(f"loss is a function of a result and the arguments, not {loss!r:.80}.")
        random = () if data is not None else self.random_calls(sizes, ranges or {}, seed)
        calls = ((run.args, run.kwargs) for run in random) if data is None else self._callable.calls(data)
        losses: list[tuple[float, float]] = []

        def outputs() -> Iterator[tuple[Sequence[Array], Sequence[Array]]]:
            for args, kwargs in calls:
                wanted = self.original.loaded(self.original.feeds(*args, **kwargs))
                found = self.loaded(self.feeds(*args, **kwargs))
                if loss is not None:
                    losses.append(
                        (_number(loss(self.results(wanted), *args)), _number(loss(self.results(found), *args)))
                    )
                yield wanted, found

        self.measurements.accuracy = found = accuracy(self.output_names, outputs(), losses)
        return found

    def bisect(
        self, *args: object, kwargs: Mapping[str, object] | None = None, sizes: Sequence[Sizes] | None = None,
        ranges: Ranges | None = None, seed: int = 0, rtol: float | None = None, atol: float | None = None,
    ) -> Bisection:  # fmt: skip
        """Compare what is computed inside the model with what the function computes; see `OnnxProgram.bisect`."""
        given = given_run(args, kwargs, sizes, ranges)
        runs = self.random_calls(sizes, ranges or {}, seed) if given is None else [given]
        return self._callable.bisect(runs, self.reference, self.given, rtol, atol)

    def contender(self, name: str = "", threads: int | None = None) -> Contender[Run]:
        """The model in its runtime as a contender in a benchmark; see `OnnxProgram.benchmark`, which has it beside."""
        return self._callable.contender(name, threads)

    def quantize(
        self, mode: Mode, *, block_size: int | None = None, exclude: Sequence[str] = (),
        calibration: Iterable[object] | None = None, keep_io_types: bool = True, tolerance: float | None = None,
    ) -> QuantizedProgram:  # fmt: skip
        """The program in still fewer bits; see `OnnxProgram.quantize`."""
        feeds = self._callable.calibration(calibration, [] if tolerance is None else self.random_calls(None, {}, 0))
        return quantized(self, Quantization(mode, block_size, exclude, feeds, keep_io_types, tolerance))


def quantized(original: Original, request: Quantization) -> QuantizedProgram:
    """A program in fewer bits, whose model says of itself what the original says."""
    program = QuantizedProgram(original, original.runtime.quantize(original.model, request, original.target), request)
    return program if original.metadata is None else program.with_metadata(original.metadata)


def _number(loss: object) -> float:
    """The number that the user's `loss` returned."""
    try:
        return float(loss)  # type: ignore[arg-type]
    except (TypeError, ValueError) as error:
        raise OptionError(f"loss returns a number for each call, not {loss!r:.80}.") from error
