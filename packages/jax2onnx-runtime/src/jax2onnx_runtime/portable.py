"""`PortableProgram`: an exported program without the function that it was made of, for processes without JAX."""

from __future__ import annotations

import dataclasses
import functools
import os
import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from jax2onnx_graph import ir
from jax2onnx_graph.arrays import Array
from jax2onnx_graph.errors import OptionError, RuntimeInputError
from jax2onnx_graph.opsets import opset_of
from jax2onnx_graph.saving.packing import PackedModel
from jax2onnx_graph.saving.signing import Signer
from jax2onnx_graph.saving.writing import save_model, save_text
from jax2onnx_graph.targets import Target
from jax2onnx_graph.traversal import given_inputs

from jax2onnx_runtime.accuracy import Accuracy, accuracy
from jax2onnx_runtime.adapters.program_adapters import Adapters
from jax2onnx_runtime.call_interface import CallInterface, TemplateSteps, checked_sizes
from jax2onnx_runtime.comparison import OutputError
from jax2onnx_runtime.feeds import symbol_space
from jax2onnx_runtime.mixed_bits import MixedBits, read_mixed_bits
from jax2onnx_runtime.pytrees import PyTree
from jax2onnx_runtime.quantization import Mode, Quantization, WeightMemory
from jax2onnx_runtime.runnable import ExpectedRun, RunnableModel, own_times, sizes_text
from jax2onnx_runtime.runtimes import LoadedModel, Runtime
from jax2onnx_runtime.session import ModelSession
from jax2onnx_runtime.sizes import Sizes, SymbolSpace
from jax2onnx_runtime.stages import Stages
from jax2onnx_runtime.state_values import StateSizes
from jax2onnx_runtime.states import RuntimeOptions

if TYPE_CHECKING:
    import onnx

__all__ = ["Measurements", "PortableProgram", "Reporter", "StoredResult", "expected_run", "unpickled"]

#: A run whose outputs are known: an `ExpectedRun`; or a pair of the arguments of a call (a tuple of them, or arrays by the
#: names of inputs) and its result (what the function returned, or arrays by the names of outputs).
StoredResult = ExpectedRun | tuple[object, object]

_PROFILED_RUNS = 10


@dataclasses.dataclass
class Measurements:
    """The results of the last measurements of a program, for its report.

    Attributes:
      verified: the errors that verification found, output by output and run by run.
      accuracy: the accuracy in fewer bits.
      times: seconds by the names of nodes.
      timed_at: the sizes at which they were measured: "B = 3"; empty where all are fixed.
    """

    verified: list[OutputError] = dataclasses.field(default_factory=list)
    accuracy: Accuracy | None = None
    times: dict[str, float] = dataclasses.field(default_factory=dict)
    timed_at: str = ""

    def profile(self, model: RunnableModel, feeds: Mapping[str, Array]) -> dict[str, float]:
        """Measure how long each node takes on these inputs: the median of ten runs; the seconds by node."""
        self.times = own_times(model.model, model.times(feeds, _PROFILED_RUNS))
        self.timed_at = sizes_text(model.model, feeds)
        return self.times

    def verify(
        self, model: RunnableModel, runs: Iterable[ExpectedRun], rtol: float | None, atol: float | None
    ) -> float:
        """Compare the outputs with those that they should have; the largest difference, 0 without any runs.

        Raises:
          VerificationError: an output differs; it is the last of those that are kept.
        """
        self.verified.clear()
        for error in model.verify(runs, rtol=rtol, atol=atol):
            self.verified.append(error)
            error.check()
        return max((error.largest for error in self.verified), default=0.0)


class Reporter(Protocol):
    """An object that writes the reports of a model, with the findings of its export."""

    def summary(self, model: ir.Model, measured: Measurements) -> str:
        """The summary, as text."""
        ...

    def text(self, model: ir.Model, measured: Measurements) -> str:
        """The report, as text."""
        ...

    def page(self, model: ir.Model, measured: Measurements) -> str:
        """The report, as an HTML page."""
        ...

    def cell(self, model: ir.Model, measured: Measurements) -> str:
        """The essence of the report, as HTML for a cell of a notebook."""
        ...


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class PortableProgram:
    """An exported program without its function: what a pickled program is in the process that unpickles it.

    It is called like the function, by the same arguments as NumPy arrays, and needs no JAX. Weights are handed over as
    buffers of their own (pickle's protocol 5), so that nothing limits their size.

    Attributes:
      model: the `onnx_ir.Model`.
      interface: how calls are runs of the model.
      runtime: what runs the model here.
      target: what the model is made for.
      reporter: the pickled `Reporter`, which is unpickled when a report is asked for, and needs jax2onnx-report.
      measurements: what `verify` and `profile` found.
      file: the file that the model was read from, which the runtime loads.
    """

    model: ir.Model
    interface: CallInterface
    runtime: Runtime
    target: Target
    reporter: bytes
    measurements: Measurements = dataclasses.field(default_factory=Measurements)
    file: Path | None = None

    def __reduce__(self) -> tuple[object, ...]:
        return unpickled, (
            PackedModel.of(self.model), self.interface, self.runtime, self.target, self.reporter, self.measurements,
        )  # fmt: skip

    def portable(self) -> PortableProgram:
        """This program."""
        return self

    @property
    def model_proto(self) -> onnx.ModelProto:
        """The model as a protobuf message (a copy; at most 2 GiB)."""
        return ir.to_proto(self.model)

    @property
    def opset(self) -> int:
        """The version of the standard operators that the model declares."""
        return opset_of(self.model)

    @property
    def input_names(self) -> list[str]:
        """The names of the model's inputs, in order, without the optional ones."""
        return [value.name or "" for value in given_inputs(self.model.graph)]

    @property
    def output_names(self) -> list[str]:
        """The names of the model's outputs, in order."""
        return [value.name or "" for value in self.model.graph.outputs]

    # -- running -------------------------------------------------------------------------------

    @functools.cached_property
    def _runnable(self) -> RunnableModel:
        return RunnableModel(self.model, self.runtime, self.file)

    @functools.cached_property
    def _space(self) -> SymbolSpace:
        return symbol_space(self.model)

    @property
    def loaded(self) -> LoadedModel:
        """The loaded model: named arrays → outputs in order."""
        return self._runnable.loaded

    def __call__(self, *args: PyTree, **kwargs: PyTree) -> PyTree:
        """Run the model on the arguments of the exported function; its result, of NumPy arrays."""
        return self.results(self.loaded(self.feeds(*args, **kwargs)))

    @functools.cached_property
    def adapters(self) -> Adapters:
        """The LoRA adapters that the model takes: `adapters.use(source)` is the program with one of them."""
        return Adapters(
            self.model, self.runtime,
            lambda given, args, kwargs: self.results(self.loaded({**self.feeds(*args, **kwargs), **given})),
        )  # fmt: skip

    def run(self, arrays: Mapping[str, PyTree]) -> dict[str, Array]:
        """Run the model on arrays by the names of inputs; the arrays of the result by the names of outputs."""
        return self.named_results(self.loaded(self.named_feeds(arrays)))

    def named_feeds(self, arrays: Mapping[str, PyTree]) -> dict[str, Array]:
        """The model's inputs for arrays of a call by the names of inputs, checked against dtypes and symbols."""
        return self._checked(self.interface.named(arrays))

    def named_results(self, outputs: Sequence[Array]) -> dict[str, Array]:
        """The arrays of the result, by the names of outputs, where the model has these outputs."""
        return {leaf.name: leaf.returned(x) for leaf, x in zip(self.interface.outputs, outputs, strict=True)}

    def feeds(self, *args: PyTree, **kwargs: PyTree) -> dict[str, Array]:
        """The model's inputs for these arguments, checked against names, dtypes and symbols."""
        return self._checked(self.interface.feeds(args, kwargs))

    def results(self, outputs: Sequence[Array]) -> PyTree:
        """The result of the function where the model has these outputs."""
        return self.interface.results(outputs)

    def _checked(self, feeds: dict[str, Array]) -> dict[str, Array]:
        checked_sizes(self._space, self.model, {name: array.shape for name, array in feeds.items()})
        return feeds

    def session(
        self, *, initial: Mapping[str, Array] | None = None, sizes: Sizes | None = None, window: Sizes | None = None,
        limits: Sizes | None = None, threads: int | None = None, providers: Sequence[object] | None = None,
        session_options: object = None, graph_optimization_level: str | None = None,
    ) -> ModelSession:  # fmt: skip
        """Load the model to run it step by step; its states stay in the runtime in between.

        Args:
          initial: first values of states by the names of inputs. Others begin with those of their module, or with zeros.
          sizes: the sizes of symbols in states that begin with zeros.
          window: how many entries of a growing axis are kept, by its symbol: the last ones.
          limits: how many entries of a growing axis there may be, by its symbol.
          threads: how many threads compute one operator.
          providers: the runtime's execution providers, each a name or a pair of a name and options.
          session_options: an options object of the runtime.
          graph_optimization_level: "all", "extended", "basic" or "disabled".

        Raises:
          OptionError: an option fits no state, or a state has no first value.
          TargetError: the runtime is not installed, or cannot run the model.
        """
        options = RuntimeOptions(threads, providers, session_options, graph_optimization_level)
        return self._runnable.open_session(
            TemplateSteps(self.interface, self.model), self._space, initial=self._first_values(initial or {}), held=self.interface.variables,
            sizes=StateSizes(sizes or {}, window or {}, limits or {}), options=options,
        )  # fmt: skip

    def _first_values(self, initial: Mapping[str, Array]) -> dict[str, Array]:
        numbers = {leaf.name: number for number, leaf in enumerate(self.interface.inputs)}
        if unknown := [name for name in initial if name not in numbers]:
            raise OptionError(f"initial: there is no input {unknown[0]!r}; the inputs are {', '.join(numbers)}.")
        return {name: self.interface.read(numbers[name], array) for name, array in initial.items()}

    def profile(self, *args: object, **kwargs: object) -> dict[str, float]:
        """Measure how long each node takes on these arguments: the median of ten runs, in seconds.

        Raises:
          TargetError: the runtime is not installed, or does not tell.
        """
        return self.measurements.profile(self._runnable, self.feeds(*args, **kwargs))

    # -- comparing -------------------------------------------------------------------------------

    def expected(self, results: Iterable[StoredResult]) -> Iterator[ExpectedRun]:
        """Runs with the outputs that they should have; a pair that does not fit the program is named by its number."""
        return (expected_run(stored, number, self._arguments, self._outputs) for number, stored in enumerate(results))

    def _arguments(self, given: object) -> dict[str, Array]:
        if isinstance(given, Mapping):
            return self.named_feeds(given)
        return self.feeds(*(given if isinstance(given, (tuple, list)) else (given,)))

    def _outputs(self, given: object) -> list[Array]:
        leaves = self.interface.outputs
        if isinstance(given, Mapping) and given.keys() == {leaf.name for leaf in leaves}:
            return [leaf.given(given[leaf.name], narrows=not self.interface.x64) for leaf in leaves]
        return self.interface.outputs_of(given)

    def verify(
        self, *, results: Iterable[StoredResult] | None = None, rtol: float | None = None, atol: float | None = None
    ) -> float:
        """Compare the model with results that were stored; the largest absolute difference.

        Args:
          results: the runs that are known: those of `program.stored_results()`, or pairs of arguments and results.
          rtol: the relative tolerance; by default that of each output's dtype.
          atol: the absolute tolerance; by default `rtol` times the largest number of the output.

        Raises:
          VerificationError: an output differs; it is named.
          OptionError: no results are given: the function itself is where the program was exported.
        """
        if results is None:
            raise OptionError(
                "This program came without its function, so that there is nothing to compare with. Store results where it was "
                "exported, stored = program.stored_results(), and give them here: verify(results=stored)."
            )
        largest = self.measurements.verify(self._runnable, self.expected(results), rtol, atol)
        if not self.measurements.verified:
            raise OptionError("There is nothing to compare with: no results were given.")
        return largest

    def accuracy(self, results: Iterable[StoredResult]) -> Accuracy:
        """How far the outputs are from results that were stored, as of a model in fewer bits; see `verify`."""
        runs = ((run.outputs, self.loaded(run.feeds)) for run in self.expected(results))
        self.measurements.accuracy = found = accuracy(self.output_names, runs)
        return found

    # -- other models ------------------------------------------------------------------------------

    def quantize(
        self, mode: Mode, *, block_size: int | None = None, exclude: Sequence[str] = (),
        calibration: Iterable[object] | None = None, keep_io_types: bool = True, tolerance: float | None = None,
        memory: WeightMemory | None = None,
    ) -> PortableProgram:  # fmt: skip
        """The program in fewer bits, made by the quantizers of its target; this one stays as it is.

        Args:
          mode: "int4", "int8", "dynamic_int8", "static_int8", "float16", "bfloat16", "int4_qdq" or "float8".
          block_size: how many weights share a scale in blocks, from 16 to 256; by default 32.
          exclude: patterns of names of nodes, weights or modules that stay.
          calibration: for "static_int8" or a tolerance, typical calls: tuples of arguments, or mappings of input names to arrays.
          keep_io_types: whether inputs and outputs stay float32 in half precision.
          tolerance: for "int4" and "int8", the share of noise that an output may have: weights get more bits until the calibration holds
            it. `bits` tells which.
          memory: one for several programs, whose common weights are then quantised into blocks once.

        Raises:
          OptionError, TargetError: an option is wrong, nothing can be quantised, or the target has no quantizer.
          RuntimeInputError: the calibration data do not fit the inputs.
        """
        feeds = None if calibration is None else [self._arguments(given) for given in calibration]
        request = Quantization(mode, block_size, exclude, feeds, keep_io_types, tolerance, memory=memory)
        model = self.runtime.quantize(self.model, request, self.target)
        return dataclasses.replace(
            self,
            model=model,
            interface=self.interface.with_element_types(model),
            measurements=Measurements(),
            file=None,
        )

    @property
    def bits(self) -> MixedBits | None:
        """How many bits each weight got so that a tolerance is held, and why; None without a tolerance."""
        return read_mixed_bits(self.model)

    def specialize(self, **values: int) -> PortableProgram:
        """Raises OptionError: the function would be lowered anew, and it is where the program was exported."""
        given = ", ".join(f"{name}={value}" for name, value in values.items())
        raise OptionError(
            f"specialize({given}) lowers the function anew, and this program came without it. Specialise where it was exported, "
            "and send that program."
        )

    # -- saving and reporting --------------------------------------------------------------------

    def save(
        self, path: str | os.PathLike[str], *, external_data: bool | None = None, threshold: int = 1024,
        data_file: str | None = None, sign: str | os.PathLike[str] | Signer | None = None,
    ) -> Path:  # fmt: skip
        """Write the model to a file, atomically; see `save_model`."""
        return save_model(self.model, path, external_data, threshold=threshold, data_file=data_file, sign=sign)

    def split(self, *, max_bytes: int | None = None, at: Sequence[str] | None = None) -> Stages:
        """Cut the program between modules into stages, each a model with its part of the weights; see `split_model`."""
        return Stages.of(self.model, self.runtime, max_bytes=max_bytes, at=at)

    @functools.cached_property
    def _reporter(self) -> Reporter:
        if not self.reporter:
            raise OptionError(
                "A program that was loaded from a folder has no report: how it was exported is known where that was done. Save the "
                "report there, program.save_report(path)."
            )
        found: Reporter = pickle.loads(self.reporter)  # noqa: S301  (it came in a pickle)
        return found

    def __repr__(self) -> str:
        return (
            f"PortableProgram({', '.join(self.input_names)}) -> {', '.join(self.output_names)}, for {self.target.name}"
        )

    def summary(self) -> str:
        """A short description of the model: needs jax2onnx-report."""
        return self._reporter.summary(self.model, self.measurements)

    def report(self) -> str:
        """A readable summary: operators, how each operation was lowered, what declined and why, symbols, sizes."""
        return self._reporter.text(self.model, self.measurements)

    def _repr_html_(self) -> str:
        return self._reporter.cell(self.model, self.measurements)

    def save_report(self, path: str | os.PathLike[str]) -> Path:
        """Write the report as an HTML page that needs no network, atomically. Raises SaveError."""
        return save_text(self._reporter.page(self.model, self.measurements), path)


class _Read(Protocol):
    def __call__(self, given: object, /) -> dict[str, Array]: ...


class _ReadOutputs(Protocol):
    def __call__(self, given: object, /) -> list[Array]: ...


def expected_run(stored: StoredResult, number: int, arguments: _Read, outputs: _ReadOutputs) -> ExpectedRun:
    """A run that is known.

    Args:
      stored: the run, or a pair of its arguments and its result.
      number: that of the run, for messages.
      arguments: the model's inputs for what stands for the arguments.
      outputs: its outputs for what stands for the result.

    Raises:
      RuntimeInputError: it is no pair, or does not fit; its number is named.
    """
    if isinstance(stored, ExpectedRun):
        return stored
    if not isinstance(stored, tuple) or len(stored) != 2:
        raise RuntimeInputError(
            f"results[{number}] is {type(stored).__name__}; a result is a pair of arguments and result."
        )
    try:
        return ExpectedRun(f"results[{number}]", arguments(stored[0]), outputs(stored[1]))
    except RuntimeInputError as error:
        raise RuntimeInputError(f"results[{number}]: {error}") from error


def unpickled(
    packed: PackedModel, interface: CallInterface, runtime: Runtime, target: Target, reporter: bytes, measured: Measurements
) -> PortableProgram:  # fmt: skip
    """The program that was pickled."""
    return PortableProgram(packed.unpacked(), interface, runtime, target, reporter, measured)
