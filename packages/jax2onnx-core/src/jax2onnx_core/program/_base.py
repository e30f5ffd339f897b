"""`Program`: a finished model and what one does with it: save it, run it, run it step by step, in fewer bits."""

from __future__ import annotations

import copy
import dataclasses
import functools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from jax2onnx_graph import ir
from jax2onnx_graph.arrays import Array, Dtype
from jax2onnx_graph.errors import OptionError, RuntimeInputError, WeightsError
from jax2onnx_graph.metadata import ModelMetadata
from jax2onnx_graph.opsets import opset_of
from jax2onnx_graph.saving.writing import save_model, save_sharing_weights, save_text
from jax2onnx_graph.targets import Target
from jax2onnx_graph.weights.absent import WeightType
from jax2onnx_graph.weights.binding import GivenWeights, Rename, bound_model, needed_weights
from jax2onnx_report.findings import Findings, VerifiedOutput
from jax2onnx_report.page.page import report_page
from jax2onnx_report.parts import own_times
from jax2onnx_report.text import report_text, summary_text
from jax2onnx_runtime.accuracy import Accuracy, accuracy
from jax2onnx_runtime.bisection import Bisection, Intermediate, bisect
from jax2onnx_runtime.comparison import OutputError
from jax2onnx_runtime.quantization import Mode, Quantization
from jax2onnx_runtime.runtimes import LoadedModel, Runtime
from jax2onnx_runtime.session import Interface, ModelSession, StateSizes, open_session
from jax2onnx_runtime.sizes import Ranges, Sizes, SymbolSpace
from jax2onnx_runtime.states import RuntimeOptions

from jax2onnx_core.lowering.log import LoweringLog

if TYPE_CHECKING:
    import onnx

__all__ = ["Arguments", "Program", "QuantizedProgram", "Run"]


_PROFILED_RUNS = 10

#: The positional and the keyword arguments of a call.
Arguments = tuple[Sequence[object], Mapping[str, object]]


@dataclasses.dataclass(frozen=True)
class Run:
    """The arguments of one run, and what is said of them in messages."""

    where: str
    args: Sequence[object]
    kwargs: Mapping[str, object]


class Program:
    """A finished model, without the function that it was made of.

    Attributes:
      model: the `onnx_ir.Model`.
      target: what the model is made for.
      runtime: what runs it here.
      log: what was lowered how.
      verified: what the last verification found, output by output and run by run.
      accuracy: what the last verification of a program in fewer bits found.
      times: seconds by the names of nodes, of the last `profile`.
      given: the weights that were given because they were absent.
      metadata: what the model was told to say of itself.
    """

    def __init__(self, model: ir.Model, target: Target, runtime: Runtime, log: LoweringLog) -> None:
        self.model = model
        self.target = target
        self.runtime = runtime
        self.log = log
        self.verified: list[OutputError] = []
        self.accuracy: Accuracy | None = None
        self.times: dict[str, float] = {}
        self.given: GivenWeights | None = None
        self.metadata: ModelMetadata | None = None

    @property
    def model_proto(self) -> onnx.ModelProto:
        """The model as a protobuf message (a copy; at most 2 GiB)."""
        self.check_complete("made a message")
        return ir.to_proto(self.model)

    @property
    def opset(self) -> int:
        """The version of the standard operators that the model declares."""
        return opset_of(self.model)

    @property
    def input_names(self) -> list[str]:
        return [value.name or "" for value in self.model.graph.inputs]

    @property
    def output_names(self) -> list[str]:
        return [value.name or "" for value in self.model.graph.outputs]

    @property
    def constraints(self) -> list[str]:
        """What is known of the symbols, as it was written."""
        return []

    # -- weights -----------------------------------------------------------------------------

    @property
    def weights(self) -> dict[str, WeightType]:
        """The weights that are absent, with their types."""
        needed = set(needed_weights(self.model))
        return {name: of for name, of in self.weight_types().items() if name in needed}

    def weight_types(self) -> dict[str, WeightType]:
        """The same with those that the exported function had, but does not use."""
        return {}

    def with_weights(self, source: object, *, rename: Rename | None = None) -> Self:
        """The program with the weights that were absent, each of which is read when the model is saved, and not kept.

        Args:
          source: what has them by the names of `weights`: a mapping of names to arrays, or to functions that make them; the
            path of a safetensors file, of the index of several, or of a directory with them or with an Orbax checkpoint; what
            `open_weights` returned. An array of another precision is converted.
          rename: the names in the source by those of `weights`, where they differ: a mapping or a function.

        Raises:
          WeightsError: weights are missing, are none of the program, or have another type; all of them are named.
        """
        return self.completed(GivenWeights(self.weight_types(), needed_weights(self.model), source, rename))

    def completed(self, given: GivenWeights) -> Self:
        """The same with weights that were checked, of another specialization."""
        complete = copy.copy(self)
        complete.given, complete.verified = given, []
        complete.model = bound_model(self.model, given)
        vars(complete).pop("loaded", None)
        return complete

    def with_metadata(self, metadata: ModelMetadata) -> Self:
        """The program whose model says of itself what `metadata` says: a name, a version, a text, entries of your own."""
        described = copy.copy(self)
        described.metadata = metadata
        described.model = self.model.clone()
        metadata.write(described.model)
        vars(described).pop("loaded", None)
        return described

    def like(self, other: Program) -> Self:
        """The program with the weights and the metadata that another specialization of it was given."""
        program = self if other.given is None else self.completed(other.given)
        return program if other.metadata is None else program.with_metadata(other.metadata)

    def check_complete(self, done: str) -> None:
        """Raise WeightsError if weights are absent, without which the program cannot be `done`."""
        if lacking := needed_weights(self.model):
            names = ", ".join(lacking[:3]) + (f" and {len(lacking) - 3} more" if len(lacking) > 3 else "")
            raise WeightsError(
                f"The program cannot be {done}: its weights {names} are absent, because it was exported from a model without "
                "arrays. Give them by program.with_weights(source), or program.save(path, weights=source)."
            )

    # -- saving ------------------------------------------------------------------------------

    def save(
        self, path: str | os.PathLike[str], *, external_data: bool | None = None, threshold: int = 1024,
        data_file: str | None = None, weights: object = None, rename: Rename | None = None,
    ) -> Path:  # fmt: skip
        """Write the model to a file, atomically; see `save_model`.

        `weights` has those that are absent, one of which is in memory at a time; see `with_weights`.
        """
        if weights is not None:
            complete = self.with_weights(weights, rename=rename)
            return complete.save(path, external_data=external_data, threshold=threshold, data_file=data_file)
        self.check_complete("saved")
        return save_model(self.model, path, external_data, threshold=threshold, data_file=data_file)

    def save_variants(self, directory: str | os.PathLike[str], **variants: Mapping[str, int]) -> list[Path]:
        """Save specializations of this program that share one file of weights.

        `save_variants("out", full={"T": 6, "S": 0}, incremental={"T": 1, "S": 5})` writes `full.onnx`,
        `incremental.onnx` and their weights.
        """
        self.check_complete("saved")
        return save_sharing_weights(directory, variants, lambda values: self.specialize(**values).model)

    def __repr__(self) -> str:
        return summary_text(self.model, self._findings())

    def report(self) -> str:
        """A readable summary: operators, how each operation was lowered, what declined and why, symbols, sizes."""
        return report_text(self.model, self._findings())

    def save_report(self, path: str | os.PathLike[str]) -> Path:
        """Write the report as an HTML page that needs no network, atomically.

        It shows what became of each module and line, a picture of the graph, weights, symbols, casts, what declined and why,
        and, if they were run before, what `verify` and `profile` found. The nodes know their lines if the export had
        `provenance=True`.

        Raises:
          SaveError: nothing can be written there.
        """
        return save_text(report_page(self.model, self._findings()), path)

    def _findings(self) -> Findings:
        verified = [VerifiedOutput(**dataclasses.asdict(error)) for error in self.verified]
        accuracy = "" if self.accuracy is None else str(self.accuracy)
        return Findings(
            self.target, self.log.ways, self.log.reasons, self.log.notes, verified, accuracy, self.times,
            list(map(str, self.log.not_formed)),
        )  # fmt: skip

    # -- running -----------------------------------------------------------------------------

    @functools.cached_property
    def loaded(self) -> LoadedModel:
        """The loaded model: named arrays → outputs in order."""
        self.check_complete("run")
        return self.runtime.installed().load(self.model)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the model on the arguments of the exported function."""
        return self.results(self.loaded(self.feeds(*args, **kwargs)))

    def profile(self, *args: object, **kwargs: object) -> dict[str, float]:
        """Measure how long each node takes: the median of ten runs, in seconds, on these arguments, by default random ones.

        The report shows them by module and by line. A node with bodies has what it takes besides the nodes in them. The runtime
        fuses less than in an ordinary run, so that each node takes its own time.

        Raises:
          TargetError: the runtime is not installed, or does not tell.
        """
        if self.input_names and not (args or kwargs):
            call = next(iter(self.random_calls(None, {}, 0)))
            args, kwargs = tuple(call.args), dict(call.kwargs)
        measured = self.runtime.installed().times(self.model, self.feeds(*args, **kwargs), _PROFILED_RUNS)
        self.times = own_times(self.model, measured)
        return self.times

    def session(
        self, *, initial: Mapping[int | str, Any] | None = None, sizes: Sizes | None = None, window: Sizes | None = None,
        limits: Sizes | None = None, threads: int | None = None, providers: Sequence[Any] | None = None,
        session_options: Any = None, graph_optimization_level: str | None = None,
    ) -> ModelSession:  # fmt: skip
        """Load the model to run it step by step; the states of `to_onnx(..., states=…)` stay in the runtime in between.

        Args:
          initial: first values of states: argument (as in `states`) → pytree. Others begin with those of their module, or
            with zeros, those that grow empty.
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
        self.check_complete("run")
        options = RuntimeOptions(threads, providers, session_options, graph_optimization_level)
        return open_session(
            self.model, lambda pairs: self.runtime.installed().open(self.model, pairs, options), self.interface(), self.space(),
            initial=self.first_states(initial or {}), sizes=StateSizes(sizes or {}, window or {}, limits or {}),
        )  # fmt: skip

    # -- looking inside ----------------------------------------------------------------------

    def bisect(
        self, *args: object, kwargs: Mapping[str, object] | None = None, sizes: Sequence[Sizes] | None = None,
        ranges: Ranges | None = None, seed: int = 0, rtol: float | None = None, atol: float | None = None,
    ) -> Bisection:  # fmt: skip
        """Compare what is computed inside the model with what the function computes, equation by equation.

        Values that passes removed are left out, and so is what happens inside of loops, branches and ONNX functions: these
        are compared as a whole. In fewer bits, the result tells what each layer adds to the error.

        Args:
          args: the positional arguments of the function to compare on; by default random ones, as `verify` takes.
          kwargs: the keyword arguments that belong to them.
          sizes: symbols → numbers, one mapping per run with random arguments.
          ranges: input name → `(low, high)` of its random numbers.
          seed: that of the random arguments.
          rtol: the relative tolerance; by default that of each value's dtype.
          atol: the absolute tolerance; by default `rtol` times the largest number of the value.

        Returns:
          The comparison of the first run in which something differs, or of the last.

        Raises:
          WeightsError: weights are absent.
        """
        if (args or kwargs) and (sizes is not None or ranges is not None):
            raise OptionError("bisect takes either arguments, or sizes and ranges for random ones.")
        self.check_complete("bisected")
        given = [Run("the given inputs", args, kwargs or {})] if args or kwargs else None
        for run in given or self.random_calls(sizes, ranges or {}, seed):
            feeds = self.feeds(*run.args, **run.kwargs)
            intermediates, expected = self.intermediates(run)
            results = self.loaded(feeds), expected
            found = bisect(
                self.model, self.runtime.installed(), feeds, intermediates, results, run.where, rtol=rtol, atol=atol
            )
            if found.first is not None:
                break
        return found

    # -- fewer bits --------------------------------------------------------------------------

    def quantize(
        self, mode: Mode, *, block_size: int | None = None, exclude: Sequence[str] = (),
        calibration: Iterable[object] | None = None, keep_io_types: bool = True,
    ) -> QuantizedProgram:  # fmt: skip
        """The program in fewer bits, made by the quantizers of its target; this one stays as it is.

        Args:
          mode: "int4", "int8": weights in blocks; "dynamic_int8", "static_int8": products of integers; "float16",
            "bfloat16": half precision.
          block_size: how many weights share a scale in blocks, from 16 to 256; by default 32.
          exclude: patterns of names of nodes, weights or modules that stay, such as "head" or "blocks.*.attn".
          calibration: for "static_int8", typical calls: tuples of arguments, or mappings of input names to arrays.
          keep_io_types: whether inputs and outputs stay float32 in half precision.

        Raises:
          OptionError, TargetError: an option is wrong, nothing can be quantised, or the target has no quantizer.
          RuntimeInputError: the calibration data do not fit the inputs.
        """
        self.check_complete("quantized")
        calls = None if calibration is None else self._calls(calibration)
        runs = None if calls is None else [self.feeds(*args, **kwargs) for args, kwargs in calls]
        return QuantizedProgram(self, Quantization(mode, block_size, exclude, runs, keep_io_types))

    def _calls(self, data: Iterable[object]) -> Iterator[Arguments]:
        """The arguments of calls: tuples of them, or mappings of the names of inputs."""
        for given in data:
            if not isinstance(given, Mapping):
                yield tuple(given) if isinstance(given, (tuple, list)) else (given,), {}
            elif set(given) == set(self.input_names):
                yield self.arguments(given)
            else:
                raise RuntimeInputError(
                    f"The inputs are {', '.join(self.input_names)}, but arrays were given for {', '.join(map(str, given))}."
                )

    # -- what depends on the function --------------------------------------------------------

    def specialize(self, **values: int) -> Program:
        """The program with these symbols fixed to numbers."""
        raise NotImplementedError

    def feeds(self, *args: object, **kwargs: object) -> dict[str, Array]:
        """The model's inputs for these arguments, checked."""
        raise NotImplementedError

    def results(self, outputs: Sequence[Array]) -> Any:
        """What the function returns where the model has these outputs."""
        raise NotImplementedError

    def arguments(self, named: Mapping[str, object]) -> Arguments:
        """The arguments for arrays by the names of inputs."""
        raise NotImplementedError

    def random_calls(self, sizes: Sequence[Sizes] | None, ranges: Ranges, seed: int) -> Iterable[Run]:
        """Calls with random arguments, at several sizes."""
        raise NotImplementedError

    def intermediates(self, run: Run) -> tuple[Sequence[Intermediate], Sequence[Array]]:
        """What the function computes in a run, as values of the model, and the outputs."""
        raise NotImplementedError

    def interface(self) -> Interface:
        """The arguments and results of a step."""
        raise NotImplementedError

    def space(self) -> SymbolSpace:
        """The sizes that the symbols may have."""
        raise NotImplementedError

    def first_states(self, given: Mapping[int | str, Any]) -> dict[str, Array]:
        """The first values of states, those that are `given` among them, by the names of inputs."""
        raise NotImplementedError


class _TypedInterface:
    """An interface whose arguments become the types that the model takes."""

    def __init__(self, interface: Interface, typed: Callable[[Mapping[str, Array]], dict[str, Array]]) -> None:
        self._interface, self._typed = interface, typed

    def feeds(
        self, args: Sequence[object], kwargs: Mapping[str, object], states: Mapping[str, tuple[int, ...]]
    ) -> tuple[dict[str, Array], Mapping[str, int]]:
        arrays, sizes = self._interface.feeds(args, kwargs, states)
        return self._typed(arrays), sizes

    def result(self, outputs: Sequence[Array]) -> Any:
        return self._interface.result(outputs)


class QuantizedProgram(Program):
    """A program in fewer bits, which is called like the one that it was made from.

    Attributes:
      original: the program in full precision.
    """

    def __init__(self, original: Program, request: Quantization) -> None:
        quantized = original.runtime.quantize(original.model, request, original.target)
        super().__init__(quantized, original.target, original.runtime, original.log)
        if original.metadata is not None:
            original.metadata.write(self.model)
        self.original = original
        self._request = request

    @property
    def constraints(self) -> list[str]:
        """Those of the original."""
        return self.original.constraints

    def specialize(self, **values: int) -> QuantizedProgram:
        """The program with these symbols fixed to numbers, quantised likewise."""
        return QuantizedProgram(self.original.specialize(**values), self._request)

    def feeds(self, *args: object, **kwargs: object) -> dict[str, Array]:
        """The model's inputs for these arguments, in half precision where the model takes that."""
        return self._typed(self.original.feeds(*args, **kwargs))

    @functools.cached_property
    def _types(self) -> dict[str | None, Dtype]:
        return {value.name: value.dtype.numpy() for value in self.model.graph.inputs if value.dtype is not None}

    def _typed(self, arrays: Mapping[str, Array]) -> dict[str, Array]:
        return {name: array.astype(self._types[name], copy=False) for name, array in arrays.items()}

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
        random = () if data is not None else self.random_calls(sizes, ranges or {}, seed)
        calls = ((call.args, call.kwargs) for call in random) if data is None else self._calls(data)
        losses: list[tuple[float, float]] = []

        def outputs() -> Iterator[tuple[Sequence[Array], Sequence[Array]]]:
            for args, kwargs in calls:
                feeds = self.original.feeds(*args, **kwargs)
                wanted, found = self.original.loaded(feeds), self.loaded(self._typed(feeds))
                if loss is not None:
                    losses.append((float(loss(self.results(wanted), *args)), float(loss(self.results(found), *args))))
                yield wanted, found

        self.accuracy = accuracy(self.output_names, outputs(), losses)
        return self.accuracy

    def results(self, outputs: Sequence[Array]) -> Any:
        return self.original.results(outputs)

    def arguments(self, named: Mapping[str, object]) -> Arguments:
        return self.original.arguments(named)

    def random_calls(self, sizes: Sequence[Sizes] | None, ranges: Ranges, seed: int) -> Iterable[Run]:
        return self.original.random_calls(sizes, ranges, seed)

    def intermediates(self, run: Run) -> tuple[Sequence[Intermediate], Sequence[Array]]:
        return self.original.intermediates(run)

    def interface(self) -> Interface:
        return _TypedInterface(self.original.interface(), self._typed)

    def space(self) -> SymbolSpace:
        return self.original.space()

    def first_states(self, given: Mapping[int | str, Any]) -> dict[str, Array]:
        return self._typed(self.original.first_states(given))
