"""`CallableModel`: a finished model with its interface and runtime, as programs run, save and report it."""

from __future__ import annotations

import dataclasses
import functools
import os
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from jax2onnx_graph import ir
from jax2onnx_graph.arrays import Array
from jax2onnx_graph.errors import OptionError, RuntimeInputError, WeightsError
from jax2onnx_graph.metadata import ModelMetadata
from jax2onnx_graph.options import check_mapping
from jax2onnx_graph.saving.signing import Signer
from jax2onnx_graph.saving.writing import save_model, save_text
from jax2onnx_graph.targets import Target
from jax2onnx_graph.weights.binding import GivenWeights, needed_weights
from jax2onnx_report.findings import Findings
from jax2onnx_report.reporter import ModelReporter
from jax2onnx_runtime.adapters.program_adapters import Adapters
from jax2onnx_runtime.benchmarks import Contender, model_contender
from jax2onnx_runtime.bisection import Bisection
from jax2onnx_runtime.bundles.bundle import Bundle, Program
from jax2onnx_runtime.mixed_bits import read_mixed_bits
from jax2onnx_runtime.portable import Measurements, PortableProgram, StoredResult, expected_run
from jax2onnx_runtime.runnable import ExpectedRun, RunnableModel
from jax2onnx_runtime.runtimes import LoadedModel, Runtime
from jax2onnx_runtime.session import ModelSession
from jax2onnx_runtime.sizes import Ranges, Sizes
from jax2onnx_runtime.state_values import StateSizes
from jax2onnx_runtime.states import RuntimeOptions

from jax2onnx_core.jax_types import PyTree
from jax2onnx_core.lowering._log import LoweringLog
from jax2onnx_core.program._reference import ReferenceFunction
from jax2onnx_core.program.interface import Interface
from jax2onnx_core.program.verification import Arguments, Run

if TYPE_CHECKING:
    import onnx

__all__ = ["CallableModel", "given_run"]


@dataclasses.dataclass(frozen=True, eq=False)
class CallableModel:
    """A finished model that is called by its interface and run by its runtime.

    Attributes:
      model: the model.
      interface: how calls are runs of the model.
      runtime: what runs it.
      target: what it was made for.
      log: what was lowered how.
      measurements: what is known of its runs.
    """

    model: ir.Model
    interface: Interface
    runtime: Runtime
    target: Target
    log: LoweringLog
    measurements: Measurements

    def check_complete(self, done: str) -> None:
        """Raise WeightsError if weights are absent, without which the program cannot be `done`."""
        if lacking := needed_weights(self.model):
            names = ", ".join(lacking[:3]) + (f" and {len(lacking) - 3} more" if len(lacking) > 3 else "")
            raise WeightsError(
                f"The program cannot be {done}: its weights {names} are absent, because it was exported from a model without "
                "arrays. Give them by program.with_weights(source), or program.save(path, weights=source)."
            )

    # -- saving and reporting ------------------------------------------------------------------

    def proto(self) -> onnx.ModelProto:
        """The model as a protobuf message."""
        self.check_complete("made a message")
        return ir.to_proto(self.model)

    def save(
        self, path: str | os.PathLike[str], external_data: bool | None, threshold: int, data_file: str | None,
        sign: str | os.PathLike[str] | Signer | None,
    ) -> Path:  # fmt: skip
        """Write the model to a file; see `save_model`."""
        self.check_complete("saved")
        return save_model(self.model, path, external_data, threshold=threshold, data_file=data_file, sign=sign)

    def save_variants(
        self, directory: str | os.PathLike[str], specialize: Callable[..., Program],
        variants: Mapping[str, Mapping[str, int]],
    ) -> list[Path]:  # fmt: skip
        """Save what `specialize` makes of the model for the sizes of each variant; the paths of the models."""
        self.check_complete("saved")
        folder = Bundle({name: specialize(**sizes) for name, sizes in variants.items()}).save(directory)
        return [folder / f"{name}.onnx" for name in variants]

    def described(self, metadata: ModelMetadata) -> ir.Model:
        """A copy of the model that says of itself what `metadata` says."""
        if not isinstance(metadata, ModelMetadata):
            raise OptionError(f"with_metadata takes a ModelMetadata(name=…, version=…), not {metadata!r:.80}.")
        described = self.model.clone()
        metadata.write(described)
        return described

    def summary(self) -> str:
        """The summary of the model, as text."""
        return self._reporter().summary(self.model, self.measurements)

    def cell(self) -> str:
        """The essence of the report, as HTML for a cell of a notebook."""
        return self._reporter().cell(self.model, self.measurements)

    def report(self) -> str:
        """The report, as text."""
        text, bits = self._reporter().text(self.model, self.measurements), read_mixed_bits(self.model)
        return text if bits is None else f"{text}\n{bits}"

    def save_report(self, path: str | os.PathLike[str]) -> Path:
        """Write the report as an HTML page."""
        return save_text(self._reporter().page(self.model, self.measurements), path)

    def _reporter(self) -> ModelReporter:
        log = self.log
        not_formed = list(map(str, log.not_formed))
        return ModelReporter(Findings(self.target, log.ways, log.reasons, log.notes, not_formed=not_formed))

    def portable(self) -> PortableProgram:
        """The program without the function. Raises WeightsError if weights are absent."""
        self.check_complete("sent to another process")
        return PortableProgram(
            self.model, self.interface.portable(), self.runtime, self.target, pickle.dumps(self._reporter()),
            dataclasses.replace(self.measurements),
        )  # fmt: skip

    # -- running -------------------------------------------------------------------------------

    @functools.cached_property
    def _runnable(self) -> RunnableModel:
        return RunnableModel(self.model, self.runtime)

    @functools.cached_property
    def loaded(self) -> LoadedModel:
        """The loaded model: named arrays → outputs in order."""
        self.check_complete("run")
        return self._runnable.loaded

    def call(self, args: Sequence[object], kwargs: Mapping[str, object]) -> PyTree:
        """Run the model on the arguments of a call; the result of the function."""
        loaded = self.loaded
        return self.interface.results(loaded(self.interface.feeds(args, kwargs)))

    def adapters(self) -> Adapters:
        """The LoRA adapters that the model takes, to call it with."""

        def run(given: Mapping[str, Array], args: tuple[PyTree, ...], kwargs: dict[str, PyTree]) -> PyTree:
            return self.interface.results(self.loaded({**self.interface.feeds(args, kwargs), **given}))

        return Adapters(self.model, self.runtime, run)

    def profile(self, args: Sequence[object], kwargs: Mapping[str, object]) -> dict[str, float]:
        """Measure how long each node takes, on these arguments or, without any, on random ones; the seconds by node."""
        if self.model.graph.inputs and not (args or kwargs):
            run = next(self.interface.random_runs(self.model, None, {}, 0))
            args, kwargs = run.args, run.kwargs
        return self.measurements.profile(self._runnable, self.interface.feeds(args, kwargs))

    def session(
        self, initial: Mapping[int | str, PyTree] | None, sizes: StateSizes, options: RuntimeOptions
    ) -> ModelSession:
        """Load the model to run it step by step.

        Args:
          initial: first values of states: argument → pytree.
          sizes: the sizes of states.
          options: how the runtime is to run the model.
        """
        self.check_complete("run")
        interface = self.interface
        return self._runnable.open_session(
            interface.step_interface(), interface.space(), initial=interface.first_states(initial or {}),
            held=interface.held_states(), sizes=sizes, options=options,
        )  # fmt: skip

    def contender(
        self, name: str, threads: int | None, further: Mapping[str, Array] = MappingProxyType({})
    ) -> Contender[Run]:
        """The model as a contender in a benchmark.

        Args:
          name: what tables call it; if empty, its runtime.
          threads: how many threads compute one operator; None leaves it to the runtime.
          further: arrays for optional inputs.
        """

        def feeds(run: Run) -> Mapping[str, Array]:
            return {**self.interface.feeds(run.args, run.kwargs), **further}

        self.check_complete("measured")
        return model_contender(name, self._runnable, feeds, threads=threads)

    # -- comparing ---------------------------------------------------------------------------

    def verify(self, runs: Iterable[ExpectedRun], rtol: float | None, atol: float | None) -> float:
        """Compare the outputs with those that they should have; the largest difference."""
        self.check_complete("verified")
        return self.measurements.verify(self._runnable, runs, rtol, atol)

    def bisect(
        self, runs: Iterable[Run], reference: ReferenceFunction, given: GivenWeights | None, rtol: float | None,
        atol: float | None, *, further: Mapping[str, Array] = MappingProxyType({}),
    ) -> Bisection:  # fmt: skip
        """Compare values inside the model with those of the function.

        Args:
          runs: the arguments, at least of one run.
          reference: the function.
          given: its weights that were absent.
          rtol: the relative tolerance; by default that of each value's dtype.
          atol: the absolute tolerance; by default `rtol` times the largest number of the value.
          further: arrays for optional inputs.

        Returns:
          The comparison of the first run in which something differs, or of the last.
        """
        for run in runs:
            feeds = {**self.interface.feeds(run.args, run.kwargs), **further}
            intermediates, outputs = reference.intermediates(run, given)
            found = self._runnable.bisect(ExpectedRun(run.where, feeds, outputs), intermediates, rtol=rtol, atol=atol)
            if found.first is None:
                called = reference.outputs(run, given)
                found = found.with_call(self.interface.output_names, outputs, called, rtol=rtol, atol=atol)
            if found.first is not None:
                break
        return found

    def expected(self, results: Iterable[StoredResult]) -> Iterator[ExpectedRun]:
        """Runs that are known, with the outputs that they should have."""

        def arguments(given: object) -> dict[str, Array]:
            return self.interface.feeds(*next(self.calls([given])))

        def outputs(given: object) -> list[Array]:
            if isinstance(given, Mapping) and given.keys() == set(self.interface.output_names):
                given = self.interface.result_of(given)
            return self.interface.known_outputs(given)

        return (expected_run(stored, number, arguments, outputs) for number, stored in enumerate(results))

    def calibration(self, data: Iterable[object] | None, otherwise: Iterable[Run]) -> list[Mapping[str, Array]] | None:
        """The inputs of the model for typical calls; without any, those of some runs, None if there are none either."""
        if data is not None:
            return [self.interface.feeds(*arguments) for arguments in self.calls(data)]
        return [self.interface.feeds(run.args, run.kwargs) for run in otherwise] or None

    def calls(self, data: Iterable[object]) -> Iterator[Arguments]:
        """The arguments of calls that are given as tuples of them, or as mappings of the names of inputs to arrays.

        Raises:
          RuntimeInputError: a mapping has other names, or the calls are no iterable.
        """
        names = self.interface.inputs.names
        if not isinstance(data, Iterable):
            raise RuntimeInputError(f"The calls are a list of tuples of arguments, [(x,), …], not {data!r:.80}.")
        for given in data:
            if not isinstance(given, Mapping):
                yield tuple(given) if isinstance(given, (tuple, list)) else (given,), {}
            elif set(given) == set(names):
                yield self.interface.arguments(given)
            else:
                raise RuntimeInputError(
                    f"The inputs are {', '.join(names)}, but arrays were given for {', '.join(map(str, given))}."
                )


def given_run(
    args: Sequence[object], kwargs: Mapping[str, object] | None, sizes: Sequence[Sizes] | None, ranges: Ranges | None
) -> Run | None:
    """The run on given arguments; None if there are none, so that random ones are to be taken."""
    check_mapping("kwargs", kwargs, "keyword arguments to their values, {'scale': 2.0}")
    if not (args or kwargs):
        return None
    if sizes is not None or ranges is not None:
        raise OptionError("bisect takes either arguments, or sizes and ranges for random ones.")
    return Run("the given inputs", args, kwargs or {})
