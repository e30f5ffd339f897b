"""`OnnxProgram`: the exported model with everything one wants to do with it."""

from __future__ import annotations

import copy
import dataclasses
import functools
import glob
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from jax2onnx_graph import ir
from jax2onnx_graph.arrays import Array
from jax2onnx_graph.errors import OptionError
from jax2onnx_graph.labels import check_labels
from jax2onnx_graph.metadata import ModelMetadata, SymbolInfo
from jax2onnx_graph.opsets import opset_of
from jax2onnx_graph.options import check_count, check_flag, check_list, check_mapping, check_tolerance
from jax2onnx_graph.saving.signing import Signer
from jax2onnx_graph.targets import Target
from jax2onnx_graph.traversal import given_inputs
from jax2onnx_graph.weights.absent import AbsentTensor, WeightType
from jax2onnx_graph.weights.binding import GivenWeights, Rename, bound_model, needed_weights
from jax2onnx_runtime.accuracy import Accuracy
from jax2onnx_runtime.adapters.finding import LowRankPair
from jax2onnx_runtime.adapters.merging import with_merged_adapters
from jax2onnx_runtime.adapters.optional_inputs import adapter_pairs, exported_matrices, with_optional_adapters
from jax2onnx_runtime.adapters.program_adapters import Adapters
from jax2onnx_runtime.benchmarks import Benchmark, Contender, benchmark, usual_sizes
from jax2onnx_runtime.bisection import Bisection
from jax2onnx_runtime.comparison import OutputError
from jax2onnx_runtime.portable import Measurements, PortableProgram, StoredResult
from jax2onnx_runtime.profiles import ShapeProfile, SymbolRange, shape_profile
from jax2onnx_runtime.quantization import Mode, Quantization
from jax2onnx_runtime.runnable import ExpectedRun
from jax2onnx_runtime.runtimes import LoadedModel, Runtime
from jax2onnx_runtime.session import ModelSession
from jax2onnx_runtime.sizes import Ranges, Sizes, SymbolSpace
from jax2onnx_runtime.stages import Stages
from jax2onnx_runtime.state_values import StateSizes
from jax2onnx_runtime.states import RuntimeOptions

from jax2onnx_core.frontend._tracing import Traced
from jax2onnx_core.frontend.inputs import Inputs
from jax2onnx_core.frontend.layouts import Layouts
from jax2onnx_core.jax_types import Function, PyTree, PyTreeDef
from jax2onnx_core.lowering._log import LoweringLog
from jax2onnx_core.program._callable_model import CallableModel, given_run
from jax2onnx_core.program._quantized import QuantizedProgram, quantized
from jax2onnx_core.program._reference import ReferenceFunction
from jax2onnx_core.program.interface import Interface
from jax2onnx_core.program.verification import Arguments, Run

if TYPE_CHECKING:
    import onnx

__all__ = ["OnnxProgram", "QuantizedProgram"]


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class OnnxProgram:
    """An exported function: a model, the interface by which it is called, and the runtime that runs it.

    Calling it runs the model in the target runtime: it takes and returns the pytrees of the
    exported function, as NumPy arrays. A program is not changed; what alters it returns another one.

    Attributes:
      model: the `onnx_ir.Model`.
      interface: names, types and pytrees of the arguments and results, symbols, layouts and states.
      runtime: what runs the model here.
      target: what the model is made for.
      log: what was lowered how.
      reference: the exported function, with which the model is compared.
      lower_specialized: lowers the function anew with symbols fixed to numbers.
      weights_of: the names of the weights that a type of variables, or another term of a framework, means.
      given: the weights that were given because they were absent.
      matrices: the matrices of adapters that are optional inputs, as they were exported.
      metadata: what the model was told to say of itself.
      measurements: what `verify` and `profile` found.
    """

    model: ir.Model
    interface: Interface
    runtime: Runtime
    _: dataclasses.KW_ONLY
    target: Target
    log: LoweringLog
    reference: ReferenceFunction
    lower_specialized: Callable[[Mapping[str, int]], OnnxProgram]
    weights_of: Callable[[object], list[str]]
    given: GivenWeights | None = None
    matrices: Mapping[str, ir.TensorProtocol] = dataclasses.field(default_factory=dict)
    metadata: ModelMetadata | None = None
    measurements: Measurements = dataclasses.field(default_factory=Measurements)

    @functools.cached_property
    def _callable(self) -> CallableModel:
        return CallableModel(self.model, self.interface, self.runtime, self.target, self.log, self.measurements)

    def __reduce__(self) -> tuple[object, ...]:
        return self.portable().__reduce__()

    def __copy__(self) -> OnnxProgram:
        return dataclasses.replace(self)

    def __deepcopy__(self, memo: dict[int, object]) -> OnnxProgram:
        return dataclasses.replace(self, model=self.model.clone(), measurements=copy.deepcopy(self.measurements, memo))

    def portable(self) -> PortableProgram:
        """The program without the function, which is what a pickled program becomes in another process; it needs no JAX.

        Raises:
          WeightsError: weights are absent.
        """
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
        """The names of the model's inputs, in order, without the optional ones."""
        return [value.name or "" for value in given_inputs(self.model.graph)]

    @property
    def output_names(self) -> list[str]:
        """The names of the model's outputs, in order."""
        return [value.name or "" for value in self.model.graph.outputs]

    # -- the exported function ---------------------------------------------------------------

    @property
    def fn(self) -> Function:
        """The exported function."""
        return self.reference.fn

    @property
    def inputs(self) -> Inputs:
        """The names, types and pytree of the function's arguments."""
        return self.interface.inputs

    @property
    def traced(self) -> Traced:
        """The traced function, with the names, types and pytree of its results."""
        return self.interface.traced

    @property
    def x64(self) -> bool:
        """Whether JAX's 64-bit types were enabled."""
        return self.interface.x64

    @property
    def layouts(self) -> Layouts:
        """The inputs and outputs whose axes the model has in another order."""
        return self.interface.layouts

    @property
    def input_tree(self) -> PyTreeDef:
        """The pytree structure of `(args, kwargs)`."""
        return self.inputs.tree

    @property
    def output_tree(self) -> PyTreeDef:
        """The pytree structure of the result."""
        return self.traced.out_tree

    # -- symbols -----------------------------------------------------------------------------

    @property
    def symbols(self) -> dict[str, SymbolInfo]:
        """The symbols of the inputs: least value, the number they were fixed to, where they stand."""
        return self.interface.symbols

    @property
    def constraints(self) -> list[str]:
        """The constraints on the symbols, as they were written."""
        return self.interface.constraints

    def check_symbols(self) -> list[str]:
        """Sentences about dimensions that lost their label or have one that no input explains; empty if none."""
        return check_labels(self.model, self.symbols, self.interface.output_labels())

    def space(self) -> SymbolSpace:
        """The sizes that the symbols may have."""
        return self.interface.space()

    def specialize(self, **values: int) -> OnnxProgram:
        """The program with these symbols fixed to numbers, lowered anew without a second trace.

        Each number remembers its symbol (`SpecializedDim`); the weights are shared with this program.
        """
        program = self.lower_specialized(values)
        if self.given is not None:
            program = _with_weights(program, self.given)
        if self.matrices:
            program = program.with_adapters(*map(glob.escape, self.matrices))
        return program if self.metadata is None else program.with_metadata(self.metadata)

    def shape_profile(self, **sizes: SymbolRange) -> ShapeProfile:
        """The least, the usual and the largest shape of each input for such sizes of the symbols: `T=(1, 1, 6)`."""
        return shape_profile(self.space(), self.input_names, self.symbols, sizes)

    # -- other models of the same function -----------------------------------------------------

    @property
    def weights(self) -> dict[str, WeightType]:
        """The weights that are absent, with their types."""
        needed = set(needed_weights(self.model))
        return {name: of for name, of in self.reference.weight_types().items() if name in needed}

    def with_weights(self, source: object, *, rename: Rename | None = None) -> OnnxProgram:
        """The program with the weights that were absent, each of which is read when the model is saved, and not kept.

        Args:
          source: what has them by the names of `weights`: a mapping of names to arrays, or to functions that make them; the
            path of a safetensors file, of the index of several, or of a directory with them or with an Orbax checkpoint; what
            `open_weights` returned. An array of another precision is converted.
          rename: the names in the source by those of `weights`, where they differ: a mapping or a function.

        Raises:
          WeightsError: weights are missing, are none of the program, or have another type; all of them are named.
        """
        return _with_weights(
            self, GivenWeights(self.reference.weight_types(), needed_weights(self.model), source, rename)
        )

    def with_adapters(self, *which: object) -> OnnxProgram:
        """The program in which the matrices of LoRA adapters are optional inputs, of any rank: one base for many adapters.

        Called as it is, it computes without an adapter; `adapters.use(source)` is the program with one. `verify` compares with the
        function as it was exported, and so with the adapter that was in it.

        Args:
          which: patterns of the names of weights, with the wildcards of file names ("*.lora_a"), or which variables of a model
            are meant, in the terms of its framework (`nnx.LoRAParam`). Without any, those that show by their algebra:
            `x @ w + scale * x @ a @ b`, with a rank below the sizes of `w`.

        Raises:
          OptionError: there is no such matrix, or it is used otherwise.
        """
        model, patterns = self.model, self._patterns(which)
        found = exported_matrices(adapter_pairs(model, patterns))
        known = {name: tensor for name, tensor in found.items() if not isinstance(tensor, AbsentTensor)}
        opened = with_optional_adapters(model, patterns)
        return dataclasses.replace(self, model=opened, matrices={**self.matrices, **known}, measurements=Measurements())

    def merge_adapters(
        self, *which: object, weights: object = None, rename: Rename | None = None, scale: float = 1.0
    ) -> OnnxProgram:
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
        patterns = self._patterns(which)

        def matrices(pairs: list[LowRankPair]) -> dict[str, ir.TensorProtocol]:
            exported = exported_matrices(pairs)
            if weights is None and scale == 1.0:
                return exported
            names = [glob.escape(name) for name in exported]
            adapters = self.with_adapters(*names).adapters
            source = {name: tensor.numpy() for name, tensor in exported.items()} if weights is None else weights
            given = adapters.read(source, rename=rename, scale=scale)
            return {name: ir.Tensor(array) for name, array in given.items()}

        model = with_merged_adapters(self.model, patterns, matrices)
        return dataclasses.replace(self, model=model, measurements=Measurements())

    def _patterns(self, which: Sequence[object]) -> list[str]:
        """The patterns of names that mean weights of the model."""
        patterns = [pattern for pattern in which if isinstance(pattern, str)]
        for wanted in which:
            if isinstance(wanted, str):
                continue
            names = [name for name in self.weights_of(wanted) if name in self.model.graph.initializers]
            if not names:
                raise OptionError(
                    f"{wanted!r:.80} means no weight that the program uses, of which an adapter could be made."
                )
            patterns += map(glob.escape, names)
        return patterns

    def with_metadata(self, metadata: ModelMetadata) -> OnnxProgram:
        """The program whose model says of itself what `metadata` says: a name, a version, a text, entries of your own."""
        return dataclasses.replace(self, model=self._callable.described(metadata), metadata=metadata)

    def with_model(self, model: ir.Model) -> OnnxProgram:
        """The program around another model with the same inputs and outputs, such as one that was read from a file."""
        if not isinstance(model, ir.Model):
            raise OptionError(f"with_model takes an onnx_ir.Model, not {model!r:.80}.")
        return dataclasses.replace(self, model=model, measurements=Measurements())

    # -- saving and reporting ------------------------------------------------------------------

    def save(
        self, path: str | os.PathLike[str], *, external_data: bool | None = None, threshold: int = 1024,
        data_file: str | None = None, weights: object = None, rename: Rename | None = None,
        sign: str | os.PathLike[str] | Signer | None = None,
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
          sign: the PEM file of a private key, with which the model is signed; see `sign_model`.

        Raises:
          SaveError: nothing can be written there.
          OptionError: there is no such key.
          WeightsError: weights are absent, or do not fit.
        """
        check_flag("external_data", external_data)
        check_count("threshold", threshold)
        if rename is not None and weights is None:
            raise OptionError("rename is about the names in weights; give weights, too.")
        if weights is not None:
            complete = self.with_weights(weights, rename=rename)
            return complete.save(path, external_data=external_data, threshold=threshold, data_file=data_file, sign=sign)
        return self._callable.save(path, external_data, threshold, data_file, sign)

    def save_variants(self, directory: str | os.PathLike[str], **variants: Mapping[str, int]) -> list[Path]:
        """Save specializations of this program that share one file of weights.

        `save_variants("out", full={"T": 6, "S": 0}, incremental={"T": 1, "S": 5})` writes `full.onnx`,
        `incremental.onnx` and their weights.
        """
        return self._callable.save_variants(directory, self.specialize, variants)

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
        self._callable.check_complete("cut into stages")
        return Stages.of(self.model, self.runtime, max_bytes=max_bytes, at=at)

    def __repr__(self) -> str:
        return self._callable.summary()

    def _repr_html_(self) -> str:
        return self._callable.cell()

    def report(self) -> str:
        """A readable summary: operators, how each operation was lowered, what declined and why, symbols, sizes."""
        return self._callable.report()

    def save_report(self, path: str | os.PathLike[str]) -> Path:
        """Write the report as an HTML page that needs no network, atomically.

        It shows what became of each module and line, a picture of the graph, weights, symbols, casts, what declined and why,
        and, if they were run before, what `verify` and `profile` found. The nodes know their lines if the export had
        `provenance=True`.

        Raises:
          SaveError: nothing can be written there.
        """
        return self._callable.save_report(path)

    @property
    def verified(self) -> list[OutputError]:
        """The errors that the last verification found, output by output and run by run."""
        return self.measurements.verified

    @property
    def accuracy(self) -> Accuracy | None:
        """None: only a program in fewer bits has an accuracy."""
        return self.measurements.accuracy

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
        """The LoRA adapters that the model takes; see `with_adapters`."""
        return self._callable.adapters()

    def feeds(self, *args: PyTree, **kwargs: PyTree) -> dict[str, Array]:
        """The model's inputs for these arguments, checked against names, dtypes and symbols."""
        return self.interface.feeds(args, kwargs)

    def results(self, outputs: Sequence[Array]) -> PyTree:
        """The result of the function where the model has these outputs."""
        return self.interface.results(outputs)

    def arguments(self, named: Mapping[str, object]) -> Arguments:
        """The arguments for arrays by the names of inputs."""
        return self.interface.arguments(named)

    def random_calls(self, sizes: Sequence[Sizes] | None, ranges: Ranges, seed: int) -> Iterator[Run]:
        """Calls with random arguments, as `verify` takes them.

        Args:
          sizes: symbols → numbers, one mapping per run; by default a few of each.
          ranges: input name → `(low, high)` of its random numbers.
          seed: that of the random numbers.

        Raises:
          OptionError: `ranges` is no mapping, or `seed` no whole number from 0 on.
        """
        check_mapping("ranges", ranges, "names of inputs to (low, high), {'x': (0, 1)}")
        check_count("seed", seed)
        return self.interface.random_runs(self.model, sizes, ranges, seed)

    def profile(self, *args: object, **kwargs: object) -> dict[str, float]:
        """Measure how long each node takes: the median of ten runs, in seconds, on these arguments, by default random ones.

        The report shows them by module and by line. A node with bodies has what it takes besides the nodes in them. The runtime
        fuses less than in an ordinary run, so that each node takes its own time.

        Raises:
          TargetError: the runtime is not installed, or does not tell.
        """
        return self._callable.profile(args, kwargs)

    def session(
        self, *, initial: Mapping[int | str, PyTree] | None = None, sizes: Sizes | None = None,
        window: Sizes | None = None, limits: Sizes | None = None, threads: int | None = None,
        providers: Sequence[object] | None = None, session_options: object = None, graph_optimization_level: str | None = None,
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
        check_mapping("initial", initial, "arguments that are states to their first values, {0: cache}")
        check_list("providers", providers, "execution providers")
        options = RuntimeOptions(threads, providers, session_options, graph_optimization_level)
        return self._callable.session(initial, StateSizes(sizes or {}, window or {}, limits or {}), options)

    # -- comparing with the function -----------------------------------------------------------

    def verify(
        self, *, sizes: Sequence[Sizes] | None = None, inputs: Sequence[object] | None = None,
        kwargs: Mapping[str, object] | None = None, ranges: Ranges | None = None, seed: int = 0,
        rtol: float | None = None, atol: float | None = None, results: Iterable[StoredResult] | None = None,
    ) -> float:  # fmt: skip
        """Compare the model with the function, at several sizes of every symbol, or with results that were stored.

        Model objects in the function are copied for it, so that what a call changes is changed in the copy.

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
            arguments (a tuple, or arrays by the names of inputs) and results.

        Returns:
          The largest absolute difference.

        Raises:
          VerificationError: an output differs; it is named.
          WeightsError: weights are absent.
        """
        check_list("inputs", inputs, "arguments, one for each position")
        check_tolerance("rtol", rtol)
        check_tolerance("atol", atol)
        if results is not None:
            if any(given is not None for given in (sizes, inputs, kwargs, ranges)):
                raise OptionError("verify takes either results, or what the function is called with.")
            return self._callable.verify(self.expected(results), rtol, atol)
        runs = self.random_calls(sizes, {} if ranges is None else ranges, seed)
        if inputs is not None or kwargs is not None:
            if sizes is not None or ranges is not None:
                raise OptionError("verify takes either inputs and kwargs, or sizes and ranges for random ones.")
            runs = iter([Run("the given inputs", inputs or (), kwargs or {})])
        return self._callable.verify(map(self._expected, runs), rtol, atol)

    def stored_results(
        self, calls: Iterable[object] | None = None, *, sizes: Sequence[Sizes] | None = None, ranges: Ranges | None = None,
        seed: int = 0,
    ) -> list[ExpectedRun]:  # fmt: skip
        """The results of the function, to be compared with the model elsewhere: `verify(results=…)`. They can be pickled.

        Args:
          calls: the arguments, as for calibration; by default random ones.
          sizes: symbols → numbers, one mapping per run with random arguments.
          ranges: input name → `(low, high)` of its random numbers.
          seed: that of the random arguments.

        Raises:
          WeightsError: weights are absent.
        """
        self._callable.check_complete("run")
        if calls is None:
            return [self._expected(run) for run in self.random_calls(sizes, {} if ranges is None else ranges, seed)]
        given = enumerate(self._callable.calls(calls))
        return [self._expected(Run(f"calls[{number}]", args, kwargs)) for number, (args, kwargs) in given]

    def expected(self, results: Iterable[StoredResult]) -> Iterator[ExpectedRun]:
        """Runs with the outputs that they should have; one that does not fit the program is named by its number."""
        return self._callable.expected(results)

    def _expected(self, run: Run) -> ExpectedRun:
        feeds = {**self.interface.feeds(run.args, run.kwargs), **self._exported()}
        return ExpectedRun(run.where, feeds, self.reference.outputs(run, self.given))

    def _exported(self) -> dict[str, Array]:
        """The adapter that was exported."""
        return {name: tensor.numpy() for name, tensor in self.matrices.items()}

    def bisect(
        self, *args: object, kwargs: Mapping[str, object] | None = None, sizes: Sequence[Sizes] | None = None,
        ranges: Ranges | None = None, seed: int = 0, rtol: float | None = None, atol: float | None = None,
    ) -> Bisection:  # fmt: skip
        """Compare what is computed inside the model with what the function computes, equation by equation.

        Values that passes removed are left out, and so is what happens inside of loops, branches, ONNX functions and layers that
        became one operation: these are compared as a whole. Where all values agree, the outputs are compared with a call of the
        function, too, which `verify` does. In fewer bits, the result tells what each layer adds to the error.

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
        check_tolerance("rtol", rtol)
        check_tolerance("atol", atol)
        given = given_run(args, kwargs, sizes, ranges)
        self._callable.check_complete("bisected")
        runs = self.random_calls(sizes, ranges or {}, seed) if given is None else [given]
        return self._callable.bisect(runs, self.reference, self.given, rtol, atol, further=self._exported())

    def benchmark(
        self, *, beside: Mapping[str, OnnxProgram | QuantizedProgram] | None = None, sizes: Sequence[Sizes] | None = None,
        ranges: Ranges | None = None, seed: int = 0, seconds: float = 1.0, threads: int | None = None,
        rtol: float | None = None, atol: float | None = None,
    ) -> Benchmark:  # fmt: skip
        """Measure how long the model takes in its runtime and the function in JAX, compiled by `jax.jit`, on random arguments.

        The results are compared first: what differs from JAX by more than the tolerance is not measured, and what a runtime refuses
        is named. JAX gets arrays that
        are on its device already, runtimes take and return NumPy arrays. Everything runs in turns, after a warm-up.

        Args:
          beside: further programs of the same function by names for the table, such as one for another target or in fewer bits:
            `{"int8": program.quantize("int8")}`.
          sizes: symbols → numbers, one mapping for each row; by default 1, 8 and 64.
          ranges: input name → `(low, high)` of its random numbers; see `verify`.
          seed: that of the random arguments.
          seconds: how long each row is measured, all together.
          threads: how many threads compute one operator in the runtimes, by default as each chooses. JAX has as many as the
            variable NPROC of the environment said when it was first used.
          rtol: the relative tolerance; by default that of each output's dtype.
          atol: the absolute tolerance; by default `rtol` times the largest number of the output.

        Raises:
          OptionError, SymbolError: an option is impossible, or a symbol cannot have a size.
          WeightsError: weights are absent.
        """
        check_mapping("beside", beside, "names to programs, {'int8': program.quantize('int8')}")
        check_tolerance("rtol", rtol)
        check_tolerance("atol", atol)
        programs = {"": self, **(beside or {})}
        models = [program.contender(name, threads) for name, program in programs.items()]
        runs = self.random_calls(usual_sizes(self.space()) if sizes is None else sizes, ranges or {}, seed)
        return benchmark(
            [self.reference.contender(self.given), *models], {run.where: run for run in runs}, self.output_names,
            seconds=seconds, rtol=rtol, atol=atol,
        )  # fmt: skip

    def contender(self, name: str = "", threads: int | None = None) -> Contender[Run]:
        """The model in its runtime as a contender in a benchmark.

        Args:
          name: what tables call it; by default its runtime.
          threads: how many threads compute one operator; None leaves it to the runtime.
        """
        return self._callable.contender(name, threads, self._exported())

    # -- fewer bits --------------------------------------------------------------------------

    def quantize(
        self, mode: Mode, *, block_size: int | None = None, exclude: Sequence[str] = (),
        calibration: Iterable[object] | None = None, keep_io_types: bool = True, tolerance: float | None = None,
    ) -> QuantizedProgram:  # fmt: skip
        """The program in fewer bits, made by the quantizers of its target; this one stays as it is.

        Args:
          mode: "int4", "int8": weights in blocks; "dynamic_int8", "static_int8": products of integers; "float16",
            "bfloat16": half precision; "int4_qdq", "float8": weights behind DequantizeLinear, in standard operators.
          block_size: how many weights share a scale in blocks, from 16 to 256; by default 32.
          exclude: patterns of names of nodes, weights or modules that stay, such as "head" or "blocks.*.attn".
          calibration: for "static_int8" or a tolerance, typical calls: tuples of arguments, or mappings of input names to arrays.
          keep_io_types: whether inputs and outputs stay float32 in half precision.
          tolerance: for "int4" and "int8", the share of noise that an output may have (0.1 is 20 dB): the weights that hurt most get 8
            bits, or stay float32, until the calibration, by default random calls as `verify` takes them, holds it. `bits` tells which.

        Raises:
          OptionError, TargetError: an option is wrong, nothing can be quantised, or the target has no quantizer.
          RuntimeInputError: the calibration data do not fit the inputs.
        """
        self._callable.check_complete("quantized")
        feeds = self._callable.calibration(calibration, [] if tolerance is None else self.random_calls(None, {}, 0))
        return quantized(self, Quantization(mode, block_size, exclude, feeds, keep_io_types, tolerance))


def _with_weights(program: OnnxProgram, given: GivenWeights) -> OnnxProgram:
    """The program with weights that were checked."""
    model = bound_model(program.model, given)
    return dataclasses.replace(program, model=model, given=given, measurements=Measurements())
