"""`Runtime`: what runs finished models. One serves a target in all its versions, or several targets."""

from __future__ import annotations

import contextlib
import importlib
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Self

import numpy as np
from jax2onnx_graph import ir
from jax2onnx_graph.arrays import Array
from jax2onnx_graph.errors import ExportWarning, OptionError, TargetError
from jax2onnx_graph.limitations import Limitation
from jax2onnx_graph.metadata import StatePair
from jax2onnx_graph.saving.reading import read_model
from jax2onnx_graph.targets import Target, split_name

from jax2onnx_runtime.limitations import LIMITATIONS
from jax2onnx_runtime.quantization import Quantization
from jax2onnx_runtime.states import NumpyStates, RuntimeOptions, StatefulModel

__all__ = ["LoadedModel", "MissingRuntime", "Runtime", "find_runtime", "import_runtime", "reference_runtime"]

#: A loaded model: named arrays → the outputs, in order.
LoadedModel = Callable[[Mapping[str, Array]], list[Array]]


class Runtime:
    """Runs models of some targets; this class itself runs plain ONNX in `onnx.reference`, slowly.

    A package that adds a runtime derives from it, overrides what is different there, and hands an instance to
    `registry.runtime`. What a runtime does not override is refused by a TargetError.

    Attributes:
      name: the runtime, as messages call it.
      targets: the names of the targets whose models it runs, in all their versions.
      requirement: what `pip install` takes to install it, for messages; empty where that is another way.
      adapter_suffix: the ending of its own files of LoRA adapters; empty where it has none.
    """

    name = "onnx.reference"
    requirement = ""
    adapter_suffix = ""
    targets: frozenset[str] = frozenset({"onnx"})

    @property
    def is_installed(self) -> bool:
        """Whether models can be loaded in this process."""
        return True

    @property
    def version(self) -> str:
        """The version that is installed here; empty where nothing tells."""
        return ""

    @property
    def title(self) -> str:
        """The name with the version."""
        return " ".join(filter(None, [self.name, self.version]))

    def installed(self) -> Self:
        """The runtime itself. Raises TargetError where it is not installed."""
        if not self.is_installed:
            names = " or ".join(map(repr, sorted(self.targets)))
            how = f"The documentation of the package that supplies the target {names} says how to install it."
            if self.requirement:
                how = f"Install it with `pip install '{self.requirement}'`."
            raise TargetError(f"{self.name} is not installed, so that no model can be run here. {how}")
        return self

    def installed_or_reference(self) -> Runtime:
        """The runtime itself; where it is not installed but could be, `onnx.reference` in its place, with a warning.

        Raises TargetError where there is none, and, when a model is loaded or run, where `onnx.reference` cannot.
        """
        if self.is_installed or not self.requirement:
            return self.installed()
        warnings.warn(
            f"{self.name} is not installed, so that the model runs in onnx.reference, which is slow. "
            f"`pip install '{self.requirement}'` brings it.", ExportWarning, stacklevel=1,
        )  # fmt: skip
        return _ReferenceInstead(self)

    def load(self, model: ir.Model | Path) -> LoadedModel:
        """Load a model, or the file of one, to run it.

        Raises:
          TargetError: the model cannot be loaded here; from the loaded model, it cannot be run.
        """
        from onnx.reference import ReferenceEvaluator

        from jax2onnx_runtime._reference_operators import OPERATORS, SINCE

        opset = (model if isinstance(model, ir.Model) else read_model(model)).opset_imports.get("", 0)
        given = ir.to_proto(model) if isinstance(model, ir.Model) else str(model)
        try:
            evaluator = ReferenceEvaluator(given, new_ops=[*OPERATORS] if opset >= SINCE else None)
        except (NotImplementedError, RuntimeError) as error:
            raise TargetError(f"onnx.reference cannot load the model: {error}") from error

        def run(feeds: Mapping[str, Array]) -> list[Array]:
            try:
                with np.errstate(all="ignore"):  # what is NaN or infinite may be meant, or not be chosen
                    return list(evaluator.run(None, dict(feeds)))
            except Exception as error:
                raise TargetError(f"onnx.reference cannot run the model: {type(error).__name__}: {error}") from error

        return run

    def open(
        self,
        model: ir.Model | Path,
        states: Sequence[StatePair],
        options: RuntimeOptions,
        beside: StatefulModel | None = None,
    ) -> StatefulModel:
        """Load a model that is run step by step, and keeps states between the steps.

        Args:
          model: the model, or the file of one.
          states: the pairs of inputs and outputs that are states.
          options: how it is to be run.
          beside: a model that this runtime opened: a state that both have, by its name, is one state, and an input that a run gets no
            array for is the state of that name.

        Raises:
          OptionError: the runtime has no such options.
          TargetError: the model cannot be loaded here.
        """
        if options.given():
            raise OptionError(f"{self.name} runs models without options; it has no {', '.join(options.given())}.")
        described = model if isinstance(model, ir.Model) else read_model(model)
        return NumpyStates(described, states, self.load(model), beside if isinstance(beside, NumpyStates) else None)

    def times(self, model: ir.Model, feeds: Mapping[str, Array], runs: int) -> dict[str, float]:
        """Measure the time of each node of a model.

        Args:
          model: the model.
          feeds: an array for each input, by name.
          runs: how many runs are measured.

        Returns:
          The median of the seconds of each node, by its name; those of a node with bodies include what is in them.

        Raises:
          TargetError: the runtime does not tell.
        """
        raise TargetError(f"{self.name} does not tell how long each node of a model takes.")

    def limitations(self, target: Target) -> Sequence[Limitation]:
        """Its known limitations for models of a target in some version, beside `target.limitations()`."""
        return ()

    def quantize(self, model: ir.Model, request: Quantization, target: Target) -> ir.Model:
        """A copy of a model in fewer bits.

        Args:
          model: the model.
          request: how it shall be quantised.
          target: the one that it was made for, in its version.

        Raises:
          OptionError: the request does not fit the model.
          TargetError: the runtime has no quantizer, or it fails.
        """
        raise TargetError(
            f"{self.name} has no quantizer: export for a target whose runtime has one, or use the runtime's own tools."
        )

    def save_adapter(self, path: Path, matrices: Mapping[str, Array]) -> None:
        """Write the matrices of a LoRA adapter, by the names of inputs, to a file of the runtime's own format.

        Raises:
          SaveError: nothing can be written there.
          TargetError: the runtime has no such format.
        """
        raise TargetError(
            f"{self.name} has no files of adapters. Keep the matrices in a file of safetensors, and give that."
        )

    def read_adapter(self, path: Path) -> dict[str, Array]:
        """The matrices in a file that `save_adapter` wrote, by the names of inputs.

        Raises:
          WeightsError: the file holds no adapter.
          TargetError: the runtime has no such format.
        """
        raise TargetError(
            f"{self.name} reads no files of adapters such as {path}. Give the matrices by name, or a file of safetensors."
        )


class MissingRuntime(Runtime):
    """Stands for the runtime of a target that has none here: running a model raises a TargetError."""

    def __init__(self, target: Target) -> None:
        self.name = f"The runtime of the target {target.name!r}"
        self.targets = frozenset({target.name})

    @property
    def is_installed(self) -> bool:
        """False."""
        return False

    def installed(self) -> Self:
        """Raises TargetError."""
        raise TargetError(
            f"No installed plugin runs models for the target {', '.join(self.targets)}: none has called registry.runtime(...) with one. "
            "Export for another target to run the model here."
        )


class _ReferenceRuntime(Runtime):
    """`onnx.reference`, with what is known of it."""

    @property
    def version(self) -> str:
        """Version of the installed package onnx."""
        import onnx

        return onnx.__version__

    def limitations(self, target: Target) -> Sequence[Limitation]:
        """Known limitations of `onnx.reference`."""
        return LIMITATIONS


reference_runtime = _ReferenceRuntime()


class _ReferenceInstead(_ReferenceRuntime):
    """`onnx.reference` in the place of a runtime that is not installed, whose error it gives where it cannot run a model."""

    def __init__(self, missing: Runtime) -> None:
        self._missing = missing

    def load(self, model: ir.Model | Path) -> LoadedModel:
        """Load a model to run it. Raises TargetError, also from the loaded model."""
        with self._wanted():
            loaded = super().load(model)

        def run(feeds: Mapping[str, Array]) -> list[Array]:
            with self._wanted():
                return loaded(feeds)

        return run

    @contextlib.contextmanager
    def _wanted(self) -> Iterator[None]:
        try:
            yield
        except TargetError as error:
            error.add_note(f"{self._missing.name} may: `pip install '{self._missing.requirement}'` brings it.")
            raise


def find_runtime(runtimes: Mapping[str, Runtime], target: Target) -> Runtime:
    """The runtime among `runtimes`, by the names of their targets, that runs models made for a target in some version."""
    found = runtimes.get(split_name(target.name)[0])
    return MissingRuntime(target) if found is None else found


def import_runtime(name: str, missing: str) -> ModuleType:
    """The module of a runtime, which is imported when a model is to be run.

    Raises:
      ModuleNotFoundError: it is not installed; the message is `missing`, which says how to install it.
    """
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise ModuleNotFoundError(missing, name=name) from None
