"""`RunnableModel`: a model and the runtime that runs it, for any ONNX model."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from jax2onnx_graph import ir
from jax2onnx_graph.arrays import Array
from jax2onnx_graph.traversal import all_nodes, subgraphs

from jax2onnx_runtime.adapters.program_adapters import AdapterInputs
from jax2onnx_runtime.bisection import Bisection, Intermediate, bisect
from jax2onnx_runtime.comparison import OutputError, output_error
from jax2onnx_runtime.runtimes import LoadedModel, Runtime
from jax2onnx_runtime.session import ModelSession, StepInterface, open_session
from jax2onnx_runtime.sizes import SymbolSpace
from jax2onnx_runtime.state_values import StateSizes
from jax2onnx_runtime.states import RuntimeOptions
from jax2onnx_runtime.unstacking import open_unstacked

__all__ = ["ExpectedRun", "RunnableModel", "own_times", "sizes_text"]


@dataclasses.dataclass(frozen=True)
class ExpectedRun:
    """A run of a model, and the outputs that it should have.

    Attributes:
      where: the run, as messages describe it: "B = 3".
      feeds: an array for each input, by name.
      outputs: the arrays that the outputs should be, in order.
    """

    where: str
    feeds: Mapping[str, Array]
    outputs: Sequence[Array]


@dataclasses.dataclass(frozen=True, eq=False)
class RunnableModel:
    """A model and the runtime that runs it; the runtime loads it at the first run.

    Every method raises TargetError where the runtime is not installed or cannot load the model.

    Attributes:
      model: the model, of any producer.
      runtime: the runtime.
      file: the file that the model was read from, which the runtime then loads itself.
    """

    model: ir.Model
    runtime: Runtime
    file: Path | None = None

    @property
    def source(self) -> ir.Model | Path:
        """The file of the model, or the model itself where it has none."""
        return self.file or self.model

    @functools.cached_property
    def loaded(self) -> LoadedModel:
        """The loaded model: named arrays → outputs in order."""
        return self.runtime.installed().load(self.source)

    def opened(self, options: RuntimeOptions) -> LoadedModel:
        """The model loaded anew with options; raises OptionError for one that the runtime does not have."""
        return self.runtime.installed().open(self.source, (), options).run

    def __call__(self, feeds: Mapping[str, Array]) -> list[Array]:
        """Run the model: an array for each input by name → the outputs in order."""
        return self.loaded(feeds)

    def verify(
        self, runs: Iterable[ExpectedRun], *, rtol: float | None = None, atol: float | None = None
    ) -> Iterator[OutputError]:
        """Run the model, and tell how far each output of each run is from the expected one.

        Args:
          runs: the runs; the next one is asked for when the errors of the one before it have been taken.
          rtol: the relative tolerance; by default that of each output's dtype.
          atol: the absolute tolerance; by default `rtol` times the largest number of the output.

        Raises:
          VerificationError: an output has another shape.
        """
        names, loaded = [value.name or "" for value in self.model.graph.outputs], self.loaded
        for run in runs:
            for name, got, want in zip(names, loaded(run.feeds), run.outputs, strict=True):
                yield output_error(name, got, want, run.where, rtol=rtol, atol=atol)

    def bisect(
        self, run: ExpectedRun, intermediates: Sequence[Intermediate], *, rtol: float | None = None,
        atol: float | None = None,
    ) -> Bisection:  # fmt: skip
        """Compare values inside the model with those that they should be, in one run.

        Args:
          run: the run, with the outputs that it should have.
          intermediates: what values of the model should be, in the order of their computation.
          rtol: the relative tolerance; by default that of each value's dtype.
          atol: the absolute tolerance; by default `rtol` times the largest number of the value.
        """
        results = self.loaded(run.feeds), run.outputs
        return bisect(self.model, self.runtime, run.feeds, intermediates, results, run.where, rtol=rtol, atol=atol)

    def times(self, feeds: Mapping[str, Array], runs: int) -> dict[str, float]:
        """Measure how long each node takes: its name → the median of the seconds of `runs` runs; see `Runtime.times`."""
        return self.runtime.installed().times(self.model, feeds, runs)

    def open_session(
        self, interface: StepInterface, space: SymbolSpace, *, initial: Mapping[str, Array], sizes: StateSizes,
        options: RuntimeOptions, held: Mapping[str, Array] = MappingProxyType({}),
    ) -> ModelSession:  # fmt: skip
        """Load the model to run it step by step, with the states that its metadata names.

        Args:
          interface: the arguments and results of a step.
          space: the sizes that the symbols may have.
          initial: first values of states by the names of inputs; the others begin with zeros, those that grow empty.
          sizes: sizes of symbols in the states.
          options: how the runtime is to run the model.
          held: values of states that the model was exported with, which are first values in the sizes that are asked for.

        Raises:
          OptionError: an option fits no state, or the first value of a state does not follow from them.
        """
        return open_session(
            self.model, lambda _: open_unstacked(self.runtime.installed(), self.source, self.model, options), interface, space,
            initial=initial, sizes=sizes, adapters=AdapterInputs(self.model, self.runtime), held=held,
        )  # fmt: skip


def sizes_text(model: ir.Model, feeds: Mapping[str, Array]) -> str:
    """The numbers that the symbols of a model have in a run, as messages describe it: "B = 3"; empty where it has none."""
    numbers = {
        dim.value: size
        for value in model.graph.inputs
        if value.shape is not None and value.name is not None and value.name in feeds
        for dim, size in zip(value.shape, feeds[value.name].shape, strict=True)
        if isinstance(dim, ir.SymbolicDim) and dim.value is not None and dim.value.isidentifier()
    }
    return ", ".join(f"{symbol} = {number}" for symbol, number in numbers.items())


def own_times(model: ir.Model, times: Mapping[str, float]) -> dict[str, float]:
    """The times of nodes without those of the nodes in their bodies, which are counted themselves."""
    own = dict(times)
    for node in all_nodes(model):
        if node.name in own:
            inner = (body_node for body in subgraphs(node) for body_node in body)
            own[node.name] = max(own[node.name] - sum(times.get(body_node.name or "", 0.0) for body_node in inner), 0.0)
    return own
