"""`Program`: a finished model and what one does with it: save it, run it, run it step by step."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jax2onnx_graph._ir import ir
from jax2onnx_graph.arrays import Array
from jax2onnx_graph.deployment.keeper import RuntimeOptions
from jax2onnx_graph.deployment.session import Interface, ModelSession, StateSizes, open_session
from jax2onnx_graph.opsets import opset_of
from jax2onnx_graph.report import LoweringLog, report_text, summary_text
from jax2onnx_graph.saving import save_model, save_sharing_weights
from jax2onnx_graph.sizes import Sizes, SymbolSpace
from jax2onnx_graph.targets import Session, Target

if TYPE_CHECKING:
    import onnx

__all__ = ["Program"]


class Program:
    """A finished model, without the function that it was made of.

    Attributes:
      model: the `onnx_ir.Model`.
      target: the runtime that the model is for.
      log: what was lowered how.
    """

    def __init__(self, model: ir.Model, target: Target, log: LoweringLog) -> None:
        self.model = model
        self.target = target
        self.log = log

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
        return [value.name or "" for value in self.model.graph.inputs]

    @property
    def output_names(self) -> list[str]:
        return [value.name or "" for value in self.model.graph.outputs]

    @property
    def constraints(self) -> list[str]:
        """What is known of the symbols, as it was written."""
        return []

    def save(self, path: str | os.PathLike[str], *, external_data: bool | None = None,
             threshold: int = 1024, data_file: str | None = None) -> Path:  # fmt: skip
        """Write the model to a file, atomically; see `save_model`."""
        return save_model(self.model, path, external_data, threshold=threshold, data_file=data_file)

    def specialize(self, **values: int) -> Program:
        """The program with these symbols fixed to numbers."""
        raise NotImplementedError

    def save_variants(self, directory: str | os.PathLike[str], **variants: Mapping[str, int]) -> list[Path]:
        """Save specializations of this program that share one file of weights.

        `save_variants("out", full={"T": 6, "S": 0}, incremental={"T": 1, "S": 5})` writes `full.onnx`,
        `incremental.onnx` and their weights.
        """
        return save_sharing_weights(directory, variants, lambda values: self.specialize(**values).model)

    def __repr__(self) -> str:
        return summary_text(self.model, self.target, self.log)

    def report(self) -> str:
        """A readable summary: operators, how each operation was lowered, what declined and why, symbols, sizes."""
        return report_text(self.model, self.target, self.constraints, self.log)

    # -- running -----------------------------------------------------------------------------

    @functools.cached_property
    def loaded(self) -> Session:
        """The loaded model: named arrays → outputs in order."""
        return self.target.able_to_run().load(self.model)

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
        options = RuntimeOptions(threads, providers, session_options, graph_optimization_level)
        return open_session(
            self.model, lambda pairs: self.target.able_to_run().open(self.model, pairs, options), self._interface(), self._space(),
            initial=self._first_states(initial or {}), sizes=StateSizes(sizes or {}, window or {}, limits or {}),
        )  # fmt: skip

    def _interface(self) -> Interface:
        """The arguments and results of a step."""
        raise NotImplementedError

    def _space(self) -> SymbolSpace:
        """The sizes that the symbols may have."""
        raise NotImplementedError

    def _first_states(self, given: Mapping[int | str, Any]) -> dict[str, Array]:
        """The first values of states, those that are `given` among them, by the names of inputs."""
        raise NotImplementedError
