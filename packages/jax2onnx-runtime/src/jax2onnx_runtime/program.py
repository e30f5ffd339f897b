"""`Program`: a model with everything one wants to do with it."""

from __future__ import annotations

import copy
import dataclasses
import functools
import os
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, Self

from jax2onnx_graph import ir
from jax2onnx_graph.arrays import Array
from jax2onnx_graph.errors import OptionError, RuntimeInputError, WeightsError
from jax2onnx_graph.metadata import ModelMetadata
from jax2onnx_graph.opsets import opset_of
from jax2onnx_graph.options import check_count, check_flag, check_list, check_mapping, check_tolerance
from jax2onnx_graph.saving.reading import FileVersion, are_data_files_unchanged
from jax2onnx_graph.targets import Target, standard_target
from jax2onnx_graph.traversal import given_inputs
from jax2onnx_graph.weights.absent import WeightType
from jax2onnx_graph.weights.binding import GivenWeights, Rename, needed_weights

from jax2onnx_runtime.call_interface import Arguments, CallInterface, CallSteps, SizesOf, named_interface
from jax2onnx_runtime.feeds import symbol_space
from jax2onnx_runtime.pytrees import PyTree
from jax2onnx_runtime.runtimes import LoadedModel, Runtime
from jax2onnx_runtime.sizes import Ranges, Sizes, SymbolSpace
from jax2onnx_runtime.states import RuntimeOptions
from jax2onnx_runtime.steps import (
    AdaptersMerged,
    AdaptersOpened,
    Described,
    ModelReplaced,
    Quantized,
    Step,
    WeightsGiven,
)
from jax2onnx_runtime.verification import ExpectedRun, Run, StoredResult, Verification, expected_run, verify_runs

if TYPE_CHECKING:
    import onnx
    from jax2onnx_graph.saving.packing import PackedModel

    from jax2onnx_runtime.accuracy import Accuracy
    from jax2onnx_runtime.adapters.program_adapters import Adapters
    from jax2onnx_runtime.benchmarks import Contender
    from jax2onnx_runtime.comparison import OutputError
    from jax2onnx_runtime.mixed_bits import MixedBits
    from jax2onnx_runtime.quantization import Mode, WeightMemory
    from jax2onnx_runtime.session import ModelSession
    from jax2onnx_runtime.stages import Stages

__all__ = ["Measurements", "Program", "Reporter", "program_of", "unpickled"]

_NO_FUNCTION = (
    "This program came without its function, so that there is nothing to compare with. Store results where it was exported, stored = "
    "program.stored_results(), and give them here: {}(results=stored)."
)


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
class Program:
    """A model, the interface by which it is called, and the runtime that runs it; without JAX.

    It is an exported function in another process, which is called by the same arguments as NumPy arrays, or any model
    (`program_of`). A program is not changed; what alters it returns another one, with one step more. Pickled, weights are handed over
    as buffers of their own (protocol 5), so that nothing limits their size.

    Attributes:
      model: the `onnx_ir.Model`.
      interface: how calls are runs of the model.
      runtime: what runs the model here.
      target: what the model is made for.
      steps: the changes that made the model of the one that was lowered, in order.
      measurements: what `verify`, `accuracy` and `profile` found.
      stored: the file that the model was read from, which the runtime loads as long as it does not change.
      pickled_reporter: the pickled `Reporter`, which needs jax2onnx-report; empty where nothing is known of the export.
    """

    model: ir.Model
    interface: CallInterface
    runtime: Runtime
    target: Target
    _: dataclasses.KW_ONLY
    steps: tuple[Step, ...] = ()
    measurements: Measurements = dataclasses.field(default_factory=Measurements)
    stored: FileVersion | None = None
    pickled_reporter: bytes = b""

    # -- copies and pickles --------------------------------------------------------------------

    def _with(self, step: Step, model: ir.Model | None = None) -> Self:
        """The program after a step: the one way in which a program becomes another.

        Args:
          step: the step.
          model: what it makes of the model, where that is known.
        """
        model = step.apply(self.model, self.runtime, self.target) if model is None else model
        return dataclasses.replace(
            self, model=model, interface=self.interface.with_element_types(model), steps=(*self.steps, step),
            measurements=Measurements(), stored=None,
        )  # fmt: skip

    def with_steps(self, steps: Sequence[Step]) -> Self:
        """The program after steps that were made of another one, in order."""
        return self._with(steps[0]).with_steps(steps[1:]) if steps else self

    def __copy__(self) -> Self:
        return dataclasses.replace(self)

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        return dataclasses.replace(
            self, model=self.model.clone(), measurements=copy.deepcopy(self.measurements, memo), stored=None
        )

    def __reduce__(self) -> tuple[object, ...]:
        from jax2onnx_graph.saving.packing import PackedModel

        sent = self.portable()
        return unpickled, (
            PackedModel.from_model(sent.model), sent.interface, sent.runtime, sent.target, sent.steps, sent.measurements,
            sent.pickled_reporter,
        )  # fmt: skip

    def portable(self) -> Program:
        """The program without the function, as it is in another process, where it needs no JAX.

        Raises:
          WeightsError: weights are absent.
        """
        self.check_complete("sent to another process")
        return Program(
            self.model, self.interface.portable(), self.runtime, self.target, steps=tuple(step.sent() for step in self.steps),
            measurements=dataclasses.replace(self.measurements), stored=self.stored, pickled_reporter=self._pickled_reporter(),
        )  # fmt: skip

    def check_complete(self, done: str) -> None:
        """Raise WeightsError if weights are absent, without which the program cannot be `done`."""
        if lacking := needed_weights(self.model):
            names = ", ".join(lacking[:3]) + (f" and {len(lacking) - 3} more" if len(lacking) > 3 else "")
            raise WeightsError(
                f"The program cannot be {done}: its weights {names} are absent, because it was exported from a model without "
                "arrays. Give them by program.with_weights(source), or program.save(path, weights=source)."
            )

    # -- the model -----------------------------------------------------------------------------

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
        """The names of the model's inputs, in order, without the optional ones."""
        return [value.name or "" for value in given_inputs(self.model.graph)]

    @property
    def output_names(self) -> list[str]:
        """The names of the model's outputs, in order."""
        return [value.name or "" for value in self.model.graph.outputs]

    def space(self) -> SymbolSpace:
        """The sizes that the symbols may have."""
        return symbol_space(self.model)

    @property
    def bits(self) -> MixedBits | None:
        """Number of bits that was chosen for each weight so that a tolerance is held, and why; None without a tolerance."""
        from jax2onnx_runtime.mixed_bits import read_mixed_bits

        return read_mixed_bits(self.model)

    @property
    def is_quantized(self) -> bool:
        """Whether one of the steps made a model of fewer bits."""
        return any(isinstance(step, Quantized) for step in self.steps)

    # -- other models of the same function -----------------------------------------------------

    def specialize(self, **values: int) -> Self:
        """The program with these symbols fixed to numbers: the function is lowered anew, and all steps are made again.

        Raises:
          OptionError: the program came without its function, or was given another model by `with_model`, which nothing lowers anew.
        """
        given = ", ".join(f"{name}={value}" for name, value in values.items())
        raise OptionError(
            f"specialize({given}) lowers the function anew, and this program came without it. Specialise where it was exported, "
            "and send that program."
        )

    @property
    def weights(self) -> dict[str, WeightType]:
        """The weights that are absent, with their types."""
        needed = set(needed_weights(self.model))
        return {name: of for name, of in self._weight_types().items() if name in needed}

    def _weight_types(self) -> dict[str, WeightType]:
        """The types of the weights that were absent at the export."""
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
        given = GivenWeights(self._weight_types(), needed_weights(self.model), source, rename)
        return self._with(WeightsGiven(given))

    def with_adapters(self, *which: object) -> Self:
        """The program in which the matrices of LoRA adapters are optional inputs, of any rank: one base for many adapters.

        Called as it is, it computes without an adapter; `adapters.use(source)` is the program with one. What compares it with the
        function does so with the adapter with which the function was exported.

        Args:
          which: patterns of the names of weights, with the wildcards of file names ("*.lora_a"), or which variables of a model
            are meant, in the terms of its framework (`nnx.LoRAParam`). Without any, those that show by their algebra:
            `x @ w + scale * x @ a @ b`, with a rank below the sizes of `w`.

        Raises:
          OptionError: there is no such matrix, or it is used otherwise.
        """
        from jax2onnx_graph.weights.absent import AbsentTensor

        found = self._matrices(which)
        known = {name: tensor for name, tensor in found.items() if not isinstance(tensor, AbsentTensor)}
        return self._with(AdaptersOpened([*found], known))

    def merge_adapters(
        self, *which: object, weights: object = None, rename: Rename | None = None, scale: float = 1.0
    ) -> Self:
        """The program with `scale * a @ b` added to the weights that LoRA adapters belong to, so that they cost nothing.

        Args:
          which: see `with_adapters`.
          weights: the adapter, as `adapters.read` takes it; by default the matrices that were exported.
          rename: the names in `weights` by those of the program, where they differ.
          scale: a number that the product of each pair is multiplied with, beside what the function does itself.

        Raises:
          OptionError: there is no such matrix, or it is not added to the product of a weight.
          WeightsError: `weights` do not fit.
        """
        found = self._matrices(which)
        if weights is None and scale == 1.0:
            return self._with(AdaptersMerged([*found]))
        source = {name: tensor.numpy() for name, tensor in found.items()} if weights is None else weights
        adapters = self._with(AdaptersOpened([*found], {})).adapters
        given = adapters.read(source, rename=rename, scale=scale)
        return self._with(AdaptersMerged([*found], {name: ir.Tensor(array) for name, array in given.items()}))

    def _matrices(self, which: Sequence[object]) -> dict[str, ir.TensorProtocol]:
        """The matrices of the adapters that are meant, by name."""
        import glob

        from jax2onnx_runtime.adapters.optional_inputs import adapter_pairs, exported_matrices

        patterns = [pattern for pattern in which if isinstance(pattern, str)]
        for wanted in which:
            if isinstance(wanted, str):
                continue
            names = [name for name in self._weights_of(wanted) if name in self.model.graph.initializers]
            if not names:
                raise OptionError(
                    f"{wanted!r:.80} means no weight that the program uses, of which an adapter could be made."
                )
            patterns += map(glob.escape, names)
        return exported_matrices(adapter_pairs(self.model, patterns))

    def _weights_of(self, wanted: object) -> list[str]:
        """The names of the weights that a term of a framework means."""
        return []

    def with_metadata(self, metadata: ModelMetadata) -> Self:
        """The program whose model says of itself what `metadata` says: a name, a version, a text, entries of your own."""
        if not isinstance(metadata, ModelMetadata):
            raise OptionError(f"with_metadata takes a ModelMetadata(name=…, version=…), not {metadata!r:.80}.")
        return self._with(Described(metadata))

    def with_model(self, model: ir.Model) -> Self:
        """The program around another model with the same inputs and outputs, such as one that was read from a file.

        Nothing can lower that model anew, so that such a program cannot be specialised: specialise before.
        """
        if not isinstance(model, ir.Model):
            raise OptionError(f"with_model takes an onnx_ir.Model, not {model!r:.80}.")
        return self._with(ModelReplaced(), model)

    def quantize(
        self, mode: Mode, *, block_size: int | None = None, exclude: Sequence[str] = (),
        calibration: Iterable[object] | None = None, keep_io_types: bool = True, tolerance: float | None = None,
        memory: WeightMemory | None = None,
    ) -> Self:  # fmt: skip
        """The program in fewer bits, made by the quantizers of its target; this one stays as it is.

        Args:
          mode: "int4", "int8": weights in blocks; "dynamic_int8", "static_int8": products of integers; "float16",
            "bfloat16": half precision; "int4_qdq", "float8": weights behind DequantizeLinear, in standard operators.
          block_size: how many weights share a scale in blocks, from 16 to 256; by default 32.
          exclude: patterns of names of nodes, weights or modules that stay, such as "head" or "blocks.*.attn".
          calibration: for "static_int8" or a tolerance, typical calls: tuples of arguments, or mappings of input names to arrays.
          keep_io_types: whether inputs and outputs stay float32 in half precision.
          tolerance: for "int4", "int8" and "static_int8", the share of noise that an output may have (0.1 is 20 dB): the weights that
            hurt most get more bits, or stay floats, until the calibration holds it; by default random calls where the function is at
            hand. `bits` tells which.
          memory: one for several programs, whose common weights are then quantised into blocks once.

        Raises:
          OptionError, TargetError: an option is wrong, nothing can be quantised, or the target has no quantizer.
          RuntimeInputError: the calibration data do not fit the inputs.
        """
        from jax2onnx_runtime.quantization import Quantization

        self.check_complete("quantized")
        feeds = self._typical_feeds(tolerance) if calibration is None else [*map(self._feeds_of, _calls(calibration))]
        step = Quantized(Quantization(mode, block_size, exclude, feeds, keep_io_types, tolerance, memory=memory))
        model = step.apply(self.model, self.runtime, self.target)
        return self._with(step.settled(model), model)

    def _typical_feeds(self, tolerance: float | None) -> Sequence[Mapping[str, Array]] | None:
        """The inputs of calls on which a tolerance is measured where nobody gives some."""
        return None

    # -- saving and reporting ------------------------------------------------------------------

    def save(
        self, path: str | os.PathLike[str], *, external_data: bool | None = None, threshold: int = 1024,
        data_file: str | None = None, weights: object = None, rename: Rename | None = None,
    ) -> Path:  # fmt: skip
        """Write the model to a file, atomically.

        Args:
          path: the file.
          external_data: whether the weights go to a data file beside it; None: if one file cannot hold them, or if the
            data file is named.
          threshold: tensors of at least so many bytes go to the data file.
          data_file: the name of the data file; see `save_model`. None takes a new name.
          weights: those that are absent, one of which is in memory at a time; see `with_weights`.
          rename: the names in `weights` by those of the program, where they differ.

        Raises:
          SaveError: nothing can be written there.
          WeightsError: weights are absent, or do not fit.
        """
        from jax2onnx_graph.saving.writing import save_model

        check_flag("external_data", external_data)
        check_count("threshold", threshold)
        if rename is not None and weights is None:
            raise OptionError("rename is about the names in weights; give weights, too.")
        complete = self if weights is None else self.with_weights(weights, rename=rename)
        complete.check_complete("saved")
        return save_model(complete.model, path, external_data, threshold=threshold, data_file=data_file)

    def save_variants(self, directory: str | os.PathLike[str], **variants: Mapping[str, int]) -> list[Path]:
        """Save specializations of this program that share one file of weights.

        `save_variants("out", full={"T": 6, "S": 0}, incremental={"T": 1, "S": 5})` writes `full.onnx`,
        `incremental.onnx` and their weights, as a bundle of these programs is written.
        """
        from jax2onnx_graph.saving.writing import save_sharing_weights

        from jax2onnx_runtime.manifest import files_of

        self.check_complete("saved")
        if not variants:
            raise OptionError(
                "save_variants writes at least one variant: save_variants('out', single={'B': 1}, many={'B': 64})."
            )
        for name, sizes in variants.items():
            check_mapping(name, sizes, "symbols to sizes, {'B': 1}")
        made = {name: self.specialize(**(sizes or {})).portable() for name, sizes in variants.items()}
        models = {name: program.model for name, program in made.items()}
        save_sharing_weights(directory, models, lambda model: model, beside=files_of(made, ()))
        return [Path(directory) / f"{name}.onnx" for name in variants]

    def split(self, *, max_bytes: int | None = None, at: Sequence[str] | None = None) -> Stages:
        """Cut the program between modules into stages, each a model with its part of the weights; see `split_model`.

        Stages take and return arrays by name: `program.results(stages.run(program.feeds(x)))`.

        Args:
          max_bytes: how many bytes the weights of a stage may take.
          at: the modules that begin a stage, in place of `max_bytes`: `["blocks.4", "head"]`.

        Raises:
          OptionError: there is no such module, or one node needs more bytes.
          WeightsError: weights are absent.
        """
        from jax2onnx_runtime.stages import Stages

        self.check_complete("cut into stages")
        return Stages.split(self.model, self.runtime, max_bytes=max_bytes, at=at)

    @functools.cached_property
    def _reporter(self) -> Reporter:
        if not self.pickled_reporter:
            raise OptionError(
                "This program has no report: how it was exported is known where that was done. Save the report there, "
                "program.save_report(path)."
            )
        found: Reporter = pickle.loads(self.pickled_reporter)  # noqa: S301  (it came in a pickle)
        return found

    def _pickled_reporter(self) -> bytes:
        return self.pickled_reporter

    def __repr__(self) -> str:
        inputs, outputs = ", ".join(self.input_names), ", ".join(self.output_names)
        return f"{type(self).__name__}({inputs}) -> {outputs}, for {self.target.name}"

    def _repr_html_(self) -> str:
        return self._reporter.cell(self.model, self.measurements)

    def summary(self) -> str:
        """A short description of the model: needs jax2onnx-report."""
        return self._reporter.summary(self.model, self.measurements)

    def report(self) -> str:
        """A readable summary: operators, how each operation was lowered, what declined and why, symbols, sizes."""
        text, bits = self._reporter.text(self.model, self.measurements), self.bits
        return text if bits is None else f"{text}\n{bits}"

    def save_report(self, path: str | os.PathLike[str]) -> Path:
        """Write the report as an HTML page that needs no network, atomically.

        It shows what became of each module and line, a picture of the graph, weights, symbols, casts, what declined and why,
        and, if they were run before, what `verify` and `profile` found. The nodes know their lines if the export had
        `provenance=True`.

        Raises:
          SaveError: nothing can be written there.
        """
        from jax2onnx_graph.saving.writing import save_text

        return save_text(self._reporter.page(self.model, self.measurements), path)

    @property
    def verified(self) -> list[OutputError]:
        """The errors that the last verification found, output by output and run by run."""
        return self.measurements.verified

    @property
    def times(self) -> dict[str, float]:
        """Seconds by the names of nodes, of the last `profile`."""
        return self.measurements.times

    # -- running -------------------------------------------------------------------------------

    @property
    def file(self) -> Path | None:
        """The file that the model was read from; None where there is none, or it or its data have changed since."""
        if self.stored is None or not self.stored.is_unchanged() or not are_data_files_unchanged(self.model):
            return None
        return self.stored.path

    @property
    def source(self) -> ir.Model | Path:
        """The file of the model, or the model itself where it has none."""
        return self.file or self.model

    @functools.cached_property
    def loaded(self) -> LoadedModel:
        """The loaded model: named arrays → outputs in order."""
        self.check_complete("run")
        return self.runtime.installed_or_reference().load(self.source)

    @functools.cached_property
    def _sizes_of(self) -> SizesOf:
        return self.interface.sizes_in(self.model)

    def _checked(self, feeds: dict[str, Array]) -> dict[str, Array]:
        self._sizes_of({name: array.shape for name, array in feeds.items()})
        return feeds

    def __call__(self, *args: PyTree, **kwargs: PyTree) -> PyTree:
        """Run the model on the arguments of the exported function; its result, of NumPy arrays."""
        loaded = self.loaded
        return self.results(loaded(self.feeds(*args, **kwargs)))

    def run(self, arrays: Mapping[str, PyTree]) -> dict[str, Array]:
        """Run the model on arrays by the names of inputs; the arrays of the result by the names of outputs."""
        loaded = self.loaded
        return self.named_results(loaded(self.named_feeds(arrays)))

    def feeds(self, *args: PyTree, **kwargs: PyTree) -> dict[str, Array]:
        """The model's inputs for these arguments, checked against names, dtypes and symbols."""
        return self._checked(self.interface.feeds(args, kwargs))

    def named_feeds(self, arrays: Mapping[str, PyTree]) -> dict[str, Array]:
        """The model's inputs for arrays of a call by the names of inputs, checked against dtypes and symbols."""
        return self._checked(self.interface.named(arrays))

    def results(self, outputs: Sequence[Array]) -> PyTree:
        """The result of the function where the model has these outputs."""
        return self.interface.results(outputs)

    def named_results(self, outputs: Sequence[Array]) -> dict[str, Array]:
        """The arrays of the result, by the names of outputs, where the model has these outputs."""
        return self.interface.named_results(outputs)

    def arguments(self, named: Mapping[str, object]) -> Arguments:
        """The arguments for arrays by the names of inputs."""
        return self.interface.arguments(named)

    @functools.cached_property
    def adapters(self) -> Adapters:
        """The LoRA adapters that the model takes: `adapters.use(source)` is the program with one of them; see `with_adapters`."""
        from jax2onnx_runtime.adapters.program_adapters import Adapters

        return Adapters(
            self.model, self.runtime,
            lambda given, args, kwargs: self.results(self.loaded({**self.feeds(*args, **kwargs), **given})),
        )  # fmt: skip

    def profile(self, *args: object, **kwargs: object) -> dict[str, float]:
        """Measure how long each node takes: the median of ten runs, in seconds, on these arguments, by default random ones.

        The report shows them by module and by line. A node with bodies has what it takes besides the nodes in them. The runtime
        fuses less than in an ordinary run, so that each node takes its own time.

        Raises:
          TargetError: the runtime is not installed, or does not tell.
          OptionError: no arguments are given, and the function is not at hand, for which there would be random ones.
        """
        from jax2onnx_runtime.feeds import sizes_text
        from jax2onnx_runtime.node_times import node_times

        run = Run("", args, kwargs)
        if self.input_names and not (args or kwargs):
            run = next(self.random_calls(None, {}, 0))
        feeds = self._feeds_of_run(run)
        self.measurements.times = node_times(self.model, self.runtime, feeds)
        self.measurements.timed_at = sizes_text(self.model, feeds)
        return self.measurements.times

    def session(
        self, *, initial: Mapping[int | str, PyTree] | None = None, sizes: Sizes | None = None,
        window: Sizes | None = None, limits: Sizes | None = None, threads: int | None = None,
        providers: Sequence[object] | None = None, session_options: object = None, graph_optimization_level: str | None = None,
    ) -> ModelSession:  # fmt: skip
        """Load the model to run it step by step; the states of `to_onnx(..., states=…)` stay in the runtime in between.

        Args:
          initial: first values of states by the names of inputs or, where the function is at hand, by arguments (as in `states`) as
            pytrees. Others begin with those of their module, or with zeros, those that grow empty.
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
        from jax2onnx_runtime.session import open_model
        from jax2onnx_runtime.state_values import StateSizes

        check_mapping("initial", initial, "arguments that are states to their first values, {0: cache}")
        check_list("providers", providers, "execution providers")
        self.check_complete("run")
        return open_model(
            self.model, self.runtime, CallSteps(self.interface, self._sizes_of), self.space(), file=self.file,
            initial=self.interface.first_states(initial or {}), held=self.interface.held_states(),
            sizes=StateSizes(sizes or {}, window or {}, limits or {}),
            options=RuntimeOptions(threads, providers, session_options, graph_optimization_level),
        )  # fmt: skip

    def contender(self, name: str = "", threads: int | None = None) -> Contender[Run]:
        """The model in its runtime as a contender in a benchmark, with the adapter with which it was exported.

        Args:
          name: what tables call it; by default its runtime.
          threads: how many threads compute one operator; None leaves it to the runtime.
        """
        from jax2onnx_runtime.benchmarks import model_contender

        self.check_complete("measured")
        return model_contender(name or self.runtime.title, self._opened, self._feeds_of_run, threads=threads)

    def _opened(self, options: RuntimeOptions) -> LoadedModel:
        """The loaded model, anew where there are options."""
        return self.runtime.installed().open(self.source, (), options).run if options.given() else self.loaded

    # -- comparing -------------------------------------------------------------------------------

    def random_calls(self, sizes: Sequence[Sizes] | None, ranges: Ranges, seed: int) -> Iterator[Run]:
        """Calls with random arguments, as `verify` takes them.

        Args:
          sizes: symbols → numbers, one mapping per run; by default a few of each.
          ranges: input name → `(low, high)` of its random numbers.
          seed: that of the random numbers.

        Raises:
          OptionError: `ranges` is no mapping, `seed` no whole number from 0 on, or the program came without its function.
        """
        raise OptionError(
            "This program came without its function, whose types and symbols random arguments are made of. Give arguments."
        )

    def verify(
        self, *, sizes: Sequence[Sizes] | None = None, inputs: Sequence[object] | None = None,
        kwargs: Mapping[str, object] | None = None, ranges: Ranges | None = None, seed: int = 0,
        rtol: float | None = None, atol: float | None = None, results: Iterable[StoredResult] | None = None,
    ) -> Verification:  # fmt: skip
        """Compare the model with the function, at several sizes of every symbol, or with results that were stored.

        Model objects in the function are copied for it, so that what a call changes is changed in the copy. A program in fewer bits
        has no tolerance unless one is given: its result tells the accuracy.

        Args:
          sizes: symbols → numbers, one mapping per run. By default the smallest allowed, a prime and a larger one,
            and up to two more at which windows and slices of the model just fit or do not.
          inputs: the arguments to compare with, one entry per positional argument; by default random ones.
          kwargs: the keyword arguments that belong to `inputs`.
          ranges: input name → `(low, high)`, random numbers from `low` up to, for integers without, `high`. By default
            integers that index an axis are within it, others from 0 to 4.
          seed: that of the random arguments.
          rtol: the relative tolerance; by default that of each output's dtype.
          atol: the absolute tolerance; by default `rtol` times the largest number of the output.
          results: runs that are known, with which the model is compared instead: those of `stored_results`, or pairs of
            arguments (a tuple, or arrays by the names of inputs) and results. Needed where the function is not at hand.

        Returns:
          The largest absolute difference, whose text says what was compared.

        Raises:
          VerificationError: an output differs; it is named.
          OptionError: there is nothing to compare with.
          WeightsError: weights are absent.
        """
        check_list("inputs", inputs, "arguments, one for each position")
        check_tolerance("rtol", rtol)
        check_tolerance("atol", atol)
        if results is not None:
            if any(given is not None for given in (sizes, inputs, kwargs, ranges)):
                raise OptionError("verify takes either results, or what the function is called with.")
            runs = self._stored(results)
        else:
            self._check_has_function("verify")
            runs = self._expected_runs(self._runs("verify", inputs, kwargs, sizes, ranges, seed))
        self.check_complete("verified")
        is_strict = not self.is_quantized or rtol is not None or atol is not None
        self.measurements.verified = []  # the list before it is the user's, and that of copies
        found = verify_runs(
            self.output_names,
            self.loaded,
            runs,
            rtol=rtol,
            atol=atol,
            least=self.target.rounding,
            taken=self._keep if is_strict else None,
        )
        if self.is_quantized:
            self.measurements.accuracy = found.accuracy
        return found

    def _keep(self, error: OutputError) -> None:
        self.measurements.verified.append(error)
        error.check()

    def accuracy(
        self, data: Iterable[object] | None = None, *, sizes: Sequence[Sizes] | None = None, ranges: Ranges | None = None,
        seed: int = 0, loss: Callable[..., float] | None = None, results: Iterable[StoredResult] | None = None,
    ) -> Accuracy:  # fmt: skip
        """Compare the outputs with those of the function in full precision, or with stored results.

        Args:
          data: the arguments of calls, as for calibration; by default random ones, which tell little of a trained model.
          sizes: symbols → numbers, one mapping per run with random arguments.
          ranges: input name → `(low, high)` of its random numbers.
          seed: that of the random arguments.
          loss: `loss(result, *args)`, of which the mean over the calls is reported for the function and for the model.
          results: runs that are known; see `verify`. Needed where the function is not at hand.

        Raises:
          OptionError: there is nothing to compare with.
          WeightsError: weights are absent.
        """
        from jax2onnx_runtime.accuracy import accuracy

        if loss is not None and not callable(loss):
            raise OptionError(f"loss is a function of a result and the arguments, not {loss!r:.80}.")
        self.check_complete("run")
        losses: list[tuple[float, float]] = []
        outputs: Iterator[tuple[Sequence[Array], Sequence[Array]]]
        if results is not None:
            if any(given is not None for given in (data, sizes, ranges, loss)):
                raise OptionError("accuracy takes either results, or what the function is called with.")
            outputs = ((run.outputs, self.loaded(run.feeds)) for run in self._stored(results))
        else:
            self._check_has_function("accuracy")
            runs = self.random_calls(sizes, ranges or {}, seed) if data is None else self._given_runs(data)
            outputs = (self._outputs_of(run, loss, losses) for run in runs)
        self.measurements.accuracy = found = accuracy(self.output_names, outputs, losses)
        return found

    def _outputs_of(
        self, run: Run, loss: Callable[..., float] | None, losses: list[tuple[float, float]]
    ) -> tuple[Sequence[Array], Sequence[Array]]:
        """The outputs of the function and of the model in a run, whose losses are added to `losses`."""
        expected = self._expected(run)
        found = self.loaded(expected.feeds)
        if loss is not None:
            both = (_number(loss(self.results(outputs), *run.args)) for outputs in (expected.outputs, found))
            losses.append((next(both), next(both)))
        return expected.outputs, found

    def _check_has_function(self, method: str) -> None:
        """Raise OptionError where the function is not at hand."""
        raise OptionError(_NO_FUNCTION.format(method))

    def _function_outputs(self, run: Run) -> list[Array]:
        """The outputs that the function has in a run."""
        raise OptionError(_NO_FUNCTION.format("verify"))

    def _runs(
        self, method: str, args: Sequence[object] | None, kwargs: Mapping[str, object] | None,
        sizes: Sequence[Sizes] | None, ranges: Ranges | None, seed: int,
    ) -> Iterator[Run]:  # fmt: skip
        """The run on given arguments, or runs on random ones where there are none."""
        check_mapping("kwargs", kwargs, "keyword arguments to their values, {'scale': 2.0}")
        if args is None and kwargs is None:
            return self.random_calls(sizes, {} if ranges is None else ranges, seed)
        if sizes is not None or ranges is not None:
            raise OptionError(f"{method} takes either arguments, or sizes and ranges for random ones.")
        return iter([Run("the given inputs", args or (), kwargs or {})])

    def _given_runs(self, data: object) -> Iterator[Run]:
        """The runs on arguments that are given as tuples of them, or as mappings of the names of inputs to arrays."""
        for number, given in enumerate(_calls(data)):
            args, kwargs = self.arguments(given) if isinstance(given, Mapping) else (_as_tuple(given), {})
            yield Run(f"calls[{number}]", args, kwargs)

    def _feeds_of(self, given: object) -> dict[str, Array]:
        """The inputs of the model for a call that is given likewise."""
        return self.named_feeds(given) if isinstance(given, Mapping) else self.feeds(*_as_tuple(given))

    def _stored(self, results: Iterable[StoredResult]) -> Iterator[ExpectedRun]:
        """Runs that are known; a pair that does not fit the program is named by its number."""

        def feeds(given: object) -> dict[str, Array]:
            return {**self._feeds_of(given), **self._exported_adapters()}

        return (expected_run(one, n, feeds, self.interface.outputs_of) for n, one in enumerate(results))

    def _expected_runs(self, runs: Iterable[Run]) -> Iterator[ExpectedRun]:
        """The runs with their expected outputs, without those that the function refuses and may refuse."""
        for run in runs:
            try:
                yield self._expected(run)
            except (TypeError, ValueError):
                if not run.may_be_refused:
                    raise

    def _expected(self, run: Run) -> ExpectedRun:
        return ExpectedRun(run.where, self._feeds_of_run(run), self._function_outputs(run))

    def _feeds_of_run(self, run: Run) -> dict[str, Array]:
        """The inputs of the model in a run, with the adapter with which it was exported."""
        return {**self.feeds(*run.args, **run.kwargs), **self._exported_adapters()}

    def _exported_adapters(self) -> dict[str, Array]:
        """The matrices with which the function was exported, for the inputs that take adapters."""
        types = {value.name: value.dtype.numpy() for value in self.model.graph.inputs if value.dtype is not None}
        return {
            name: tensor.numpy().astype(types[name], copy=False)
            for step in self.steps if isinstance(step, AdaptersOpened)
            for name, tensor in step.exported.items() if name in types
        }  # fmt: skip


def _calls(data: object) -> Iterable[object]:
    if not isinstance(data, Iterable):
        raise RuntimeInputError(f"The calls are a list of tuples of arguments, [(x,), …], not {data!r:.80}.")
    return data


def _as_tuple(given: object) -> tuple[object, ...]:
    return tuple(given) if isinstance(given, (tuple, list)) else (given,)


def _number(loss: object) -> float:
    """The number that the user's `loss` returned."""
    try:
        return float(loss)  # type: ignore[arg-type]
    except (TypeError, ValueError) as error:
        raise OptionError(f"loss returns a number for each call, not {loss!r:.80}.") from error


def program_of(
    model: ir.Model, runtime: Runtime, target: Target = standard_target, *, file: Path | None = None
) -> Program:
    """The program of any ONNX model, which takes and returns arrays by the names of inputs and outputs.

    Args:
      model: the model, of any producer.
      runtime: what runs it.
      target: what it is made for.
      file: the file that it was read from, which the runtime then loads itself.
    """
    return Program(model, named_interface(model), runtime, target, stored=FileVersion(file) if file else None)


def unpickled(
    packed: PackedModel, interface: CallInterface, runtime: Runtime, target: Target, steps: tuple[Step, ...],
    measured: Measurements, reporter: bytes,
) -> Program:  # fmt: skip
    """The program that was pickled."""
    return Program(
        packed.unpacked(), interface, runtime, target, steps=steps, measurements=measured, pickled_reporter=reporter
    )
