"""`OnnxProgram`: a program in the process that exported it, where the function is at hand."""

from __future__ import annotations

import dataclasses
import functools
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from jax2onnx_graph.arrays import Array
from jax2onnx_graph.labels import check_labels
from jax2onnx_graph.metadata import SymbolInfo
from jax2onnx_graph.options import check_count, check_mapping, check_tolerance
from jax2onnx_graph.targets import Target
from jax2onnx_graph.weights.absent import WeightType
from jax2onnx_graph.weights.binding import GivenWeights
from jax2onnx_runtime.program import Program, Reporter
from jax2onnx_runtime.runtimes import Runtime
from jax2onnx_runtime.sizes import Ranges, Sizes, SymbolSpace
from jax2onnx_runtime.steps import WeightsGiven
from jax2onnx_runtime.verification import ExpectedRun, Run

from jax2onnx_core.frontend._tracing import Traced
from jax2onnx_core.frontend.inputs import Inputs
from jax2onnx_core.frontend.layouts import Layouts
from jax2onnx_core.jax_types import Function, PyTreeDef
from jax2onnx_core.lowering._log import LoweringLog
from jax2onnx_core.program._reference import ReferenceFunction
from jax2onnx_core.program.interface import Interface

if TYPE_CHECKING:
    from jax2onnx_runtime.benchmarks import Benchmark
    from jax2onnx_runtime.bisection import Bisection
    from jax2onnx_runtime.profiles import ShapeProfile, SymbolRange

__all__ = ["OnnxProgram"]


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class OnnxProgram(Program):
    """An exported function: a program with the function that it was made of, with which it is compared and lowered anew.

    Calling it runs the model in the target runtime: it takes and returns the pytrees of the exported function, as NumPy arrays.
    Pickled, it is a `Program` in the process that unpickles it.

    Attributes:
      log: what was lowered how.
      reference: the exported function as JAX computes it.
      lower_specialized: lowers the function anew with symbols fixed to numbers.
      weights_of: the names of the weights that a type of variables, or another term of a framework, means.
    """

    interface: Interface
    _: dataclasses.KW_ONLY
    log: LoweringLog
    reference: ReferenceFunction
    lower_specialized: Callable[[Mapping[str, int]], OnnxProgram]
    weights_of: Callable[[object], list[str]]

    # -- the exported function ---------------------------------------------------------------

    @property
    def fn(self) -> Function:
        """The exported function."""
        return self.reference.fn

    @property
    def inputs(self) -> Inputs:
        """The names, types and pytree of the function's arguments."""
        return self.interface.signature

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

    def _weight_types(self) -> dict[str, WeightType]:
        return self.reference.weight_types()

    def _weights_of(self, wanted: object) -> list[str]:
        return self.weights_of(wanted)

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
        return self.inputs.space()

    def specialize(self, **values: int) -> OnnxProgram:
        """The program with these symbols fixed to numbers: lowered anew without a second trace, and all steps are made again.

        Each number remembers its symbol (`SpecializedDim`); the weights are shared with this program.

        Raises:
          OptionError: the program was given another model by `with_model`, which nothing lowers anew.
        """
        return self.lower_specialized(values).with_steps(self.steps)

    def shape_profile(self, **sizes: SymbolRange) -> ShapeProfile:
        """The least, the usual and the largest shape of each input for such sizes of the symbols: `T=(1, 1, 6)`."""
        from jax2onnx_runtime.profiles import shape_profile

        return shape_profile(self.space(), self.input_names, self.symbols, sizes)

    # -- reporting ---------------------------------------------------------------------------

    @functools.cached_property
    def _reporter(self) -> Reporter:
        from jax2onnx_report.findings import Findings
        from jax2onnx_report.reporter import ModelReporter

        log = self.log
        not_formed = list(map(str, log.not_formed))
        return ModelReporter(Findings(self.target, log.ways, log.shown_reasons, log.notes, not_formed=not_formed))

    def _pickled_reporter(self) -> bytes:
        return pickle.dumps(self._reporter)

    def __repr__(self) -> str:
        return self.summary()

    # -- comparing with the function ---------------------------------------------------------

    def _check_has_function(self, method: str) -> None:
        """The function is at hand."""

    def _function_outputs(self, run: Run) -> list[Array]:
        return self.reference.outputs(run, self._given)

    @property
    def _given(self) -> GivenWeights | None:
        """The weights that were absent, and were given."""
        return next((step.weights for step in self.steps if isinstance(step, WeightsGiven)), None)

    def random_calls(self, sizes: Sequence[Sizes] | None, ranges: Ranges, seed: int) -> Iterator[Run]:
        """Calls with random arguments, as `verify` takes them; see `Program.random_calls`."""
        check_mapping("ranges", ranges, "names of inputs to (low, high), {'x': (0, 1)}")
        check_count("seed", seed)
        return self.interface.random_runs(self.model, sizes, ranges, seed)

    def _typical_feeds(self, tolerance: float | None) -> Sequence[Mapping[str, Array]] | None:
        if tolerance is None:
            return None
        return [self.feeds(*run.args, **run.kwargs) for run in self.random_calls(None, {}, 0)] or None

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
        self.check_complete("run")
        runs = self.random_calls(sizes, ranges or {}, seed) if calls is None else self._given_runs(calls)
        return [*self._expected_runs(runs)]

    def bisect(
        self, *args: object, kwargs: Mapping[str, object] | None = None, sizes: Sequence[Sizes] | None = None,
        ranges: Ranges | None = None, seed: int = 0, rtol: float | None = None, atol: float | None = None, runtime: str = "",
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
          runtime: the name of a target in whose runtime the model is compared; by default its own.

        Returns:
          The comparison of the first run in which something differs, or of the last.

        Raises:
          WeightsError: weights are absent.
          OptionError: there is no such target.
          TargetError: its runtime is not installed, or does not run the model.
        """
        check_tolerance("rtol", rtol)
        check_tolerance("atol", atol)
        where = self._runtime_of(runtime) if runtime else (self.target, self.runtime)
        runs = self._runs("bisect", args or None, kwargs or None, sizes, ranges, seed)
        self.check_complete("bisected")
        for run in runs:
            found = self._bisected(run, *where, rtol, atol)
            if found.first is not None:
                break
        return found

    def _runtime_of(self, name: str) -> tuple[Target, Runtime]:
        from jax2onnx_core.plugins.discovery import installed_plugins

        target, runtime = installed_plugins().registry.runtime_of(name)
        return target, runtime.installed()

    def _bisected(
        self, run: Run, target: Target, runtime: Runtime, rtol: float | None, atol: float | None
    ) -> Bisection:
        from jax2onnx_runtime.bisection import bisect

        feeds, (intermediates, outputs) = self._feeds_of_run(run), self.reference.intermediates(run, self._given)
        loaded = self.loaded if runtime is self.runtime else runtime.load(self.model)
        found = bisect(
            self.model, runtime, feeds, intermediates, (loaded(feeds), outputs), run.where, rtol=rtol, atol=atol, least=target.rounding
        )  # fmt: skip
        if found.first is None:
            found = found.with_call(self.output_names, outputs, self._function_outputs(run), rtol=rtol, atol=atol)
        return found

    def benchmark(
        self, *, beside: Mapping[str, Program] | None = None, sizes: Sequence[Sizes] | None = None,
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
        from jax2onnx_runtime.benchmarks import benchmark, usual_sizes

        check_mapping("beside", beside, "names to programs, {'int8': program.quantize('int8')}")
        check_tolerance("rtol", rtol)
        check_tolerance("atol", atol)
        programs: dict[str, Program] = {"": self, **(beside or {})}
        models = [program.contender(name, threads) for name, program in programs.items()]
        runs = self.random_calls(usual_sizes(self.space()) if sizes is None else sizes, ranges or {}, seed)
        return benchmark(
            [self.reference.contender(self._given), *models], {run.where: run for run in runs}, self.output_names,
            seconds=seconds, rtol=rtol, atol=atol,
        )  # fmt: skip
