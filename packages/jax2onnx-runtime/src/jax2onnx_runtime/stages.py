"""`Stages`: a model that was split, run stage after stage, in one process or in several."""

from __future__ import annotations

import dataclasses
import functools
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from jax2onnx_graph import ir
from jax2onnx_graph.arrays import Array
from jax2onnx_graph.errors import OptionError, ReadError, RuntimeInputError
from jax2onnx_graph.metadata import StatePair, read_states
from jax2onnx_graph.saving.packing import PackedModel
from jax2onnx_graph.saving.reading import read_model
from jax2onnx_graph.saving.writing import save_several, weights_size
from jax2onnx_graph.traversal import given_inputs

from jax2onnx_runtime.call_interface import CallSteps, named_interface
from jax2onnx_runtime.feeds import symbol_space
from jax2onnx_runtime.runtimes import LoadedModel, Runtime
from jax2onnx_runtime.session import ModelSession, open_model
from jax2onnx_runtime.sizes import Sizes
from jax2onnx_runtime.splitting import split_model
from jax2onnx_runtime.state_values import StateSizes, check_known
from jax2onnx_runtime.states import RuntimeOptions

__all__ = ["Stage", "Stages", "StagesSession"]

_LIST = "stages.json"


@dataclasses.dataclass(frozen=True, eq=False)
class Stage:
    """One stage: a model with its part of the weights.

    Attributes:
      name: its name, and that of its file.
      model: the model, whose inputs are inputs of the whole model or outputs of earlier stages.
      runtime: what runs it.
    """

    name: str
    model: ir.Model
    runtime: Runtime

    def __reduce__(self) -> tuple[object, ...]:
        return _unpickled, (self.name, PackedModel.from_model(self.model), self.runtime)

    @property
    def inputs(self) -> list[str]:
        """The names of what it takes."""
        return [str(value.name) for value in given_inputs(self.model.graph)]

    @property
    def outputs(self) -> list[str]:
        """The names of what it gives."""
        return [str(value.name) for value in self.model.graph.outputs]

    @property
    def states(self) -> list[StatePair]:
        """The states that this stage alone needs."""
        return read_states(self.model)

    @property
    def nbytes(self) -> int:
        """The bytes of its weights."""
        return weights_size(self.model)

    @functools.cached_property
    def _loaded(self) -> LoadedModel:
        return self.runtime.installed().load(self.model)

    def run(self, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """Run the stage: its inputs by name, among which there may be others → its outputs by name."""
        outputs = self._loaded({name: arrays[name] for name in self.inputs})
        return dict(zip(self.outputs, outputs, strict=True))

    def session(
        self, *, initial: Mapping[str, Array] | None = None, sizes: Sizes | None = None, window: Sizes | None = None,
        limits: Sizes | None = None, threads: int | None = None,
    ) -> ModelSession:  # fmt: skip
        """Load the stage to run it step by step; its states stay in the runtime.

        A step takes one mapping, its inputs that are no states by name, and returns the outputs that are none by name.

        Args:
          initial: first values of states, by the names of inputs. What belongs to other stages is left out.
          sizes: the sizes of symbols in states that begin with zeros; symbols of other stages are left out.
          window: how many entries of a growing axis are kept.
          limits: how many entries of a growing axis there may be.
          threads: how many threads compute one operator.
        """
        own = {pair.input for pair in self.states}
        interface = named_interface(self.model)
        return open_model(
            self.model, self.runtime, CallSteps(interface, interface.sizes_in(self.model)), symbol_space(self.model),
            initial={name: array for name, array in (initial or {}).items() if name in own},
            sizes=StateSizes(sizes or {}, window or {}, limits or {}).for_model(self.model), options=RuntimeOptions(threads),
        )  # fmt: skip


def _unpickled(name: str, packed: PackedModel, runtime: Runtime) -> Stage:
    return Stage(name, packed.unpacked(), runtime)


@dataclasses.dataclass(frozen=True, eq=False)
class Stages:
    """A model that was split into stages, which are run one after the other.

    Attributes:
      stages: the stages, in order.
      inputs: the names of the model's inputs.
      outputs: the names of the model's outputs.
      states: the states of the whole model.
    """

    stages: Sequence[Stage]
    inputs: Sequence[str]
    outputs: Sequence[str]
    states: Sequence[StatePair] = ()

    @classmethod
    def split(
        cls, model: ir.Model, runtime: Runtime, *, max_bytes: int | None = None, at: Sequence[str] | None = None
    ) -> Stages:
        """Split a model; see `split_model`."""
        models = split_model(model, max_bytes=max_bytes, at=at)
        stages = [Stage(f"stage-{number}", part, runtime) for number, part in enumerate(models)]
        inputs = [str(value.name) for value in given_inputs(model.graph)]
        return cls(stages, inputs, [str(value.name) for value in model.graph.outputs], read_states(model))

    def needed_after(self, number: int) -> set[str]:
        """The names of what later stages, or the caller, need after this stage."""
        return {name for stage in self.stages[number + 1 :] for name in stage.inputs} | set(self.outputs)

    def run(self, feeds: Mapping[str, Array]) -> list[Array]:
        """Run all stages: the inputs by name → the outputs in order. What no later stage needs is not kept."""
        _check_names(self.inputs, feeds)
        known = dict(feeds)
        for number, stage in enumerate(self.stages):
            known |= stage.run(known)
            needed = self.needed_after(number)
            known = {name: array for name, array in known.items() if name in needed}
        return [known[name] for name in self.outputs]

    def session(
        self, *, initial: Mapping[str, Array] | None = None, sizes: Sizes | None = None, window: Sizes | None = None,
        limits: Sizes | None = None,
    ) -> StagesSession:  # fmt: skip
        """Load all stages to run them step by step; each keeps its own states. See `Stage.session`.

        Raises:
          OptionError: a state is in several stages, or an option fits none.
        """
        given = {"initial": initial, "sizes": sizes, "window": window, "limits": limits}
        self.check_session(**given)  # type: ignore[arg-type]  # one type for each name
        sessions = [stage.session(**given) for stage in self.stages]  # type: ignore[arg-type]  # one type for each name
        return StagesSession(self, sessions)

    def check_session(
        self, *, initial: Mapping[str, Array] | None, sizes: Sizes | None, window: Sizes | None, limits: Sizes | None
    ) -> None:
        """Raise OptionError where a state is in several stages, or an option fits none; see `session`."""
        own = {pair.input for stage in self.stages for pair in stage.states}
        if lost := [pair.input for pair in self.states if pair.input not in own]:
            raise OptionError(
                f"The state {lost[0]!r} is read or written in several stages. Split elsewhere, or hand it over yourself: "
                "run({…}) takes and returns states like all arrays."
            )
        check_known([s.model for s in self.stages], StateSizes(sizes or {}, window or {}, limits or {}), initial or {})

    def check_step(self, feeds: Mapping[str, Array]) -> None:
        """Raise RuntimeInputError unless these are the inputs that are no states."""
        states = {name for pair in self.states for name in (pair.input, pair.output)}
        _check_names([name for name in self.inputs if name not in states], feeds)

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Write each stage to a file `stage-0.onnx`, … of a folder, which is made, and their order to `stages.json`.

        Everything is written before anything that was there is replaced.

        Raises:
          SaveError: nothing can be written there.
        """
        entry = {
            "stages": [f"{stage.name}.onnx" for stage in self.stages], "inputs": list(self.inputs),
            "outputs": list(self.outputs), "states": [dataclasses.asdict(pair) for pair in self.states],
        }  # fmt: skip
        content = json.dumps(entry, indent=1).encode()
        save_several(folder, {stage.name: stage.model for stage in self.stages}, beside={_LIST: content})
        return Path(folder)

    @classmethod
    def load(cls, folder: str | os.PathLike[str], runtime: Runtime) -> Stages:
        """The stages in a folder that `save` has written. Raises ReadError."""
        folder = Path(folder)
        try:
            entry = json.loads((folder / _LIST).read_text())
            files, states = map(Path, entry["stages"]), [StatePair(**pair) for pair in entry["states"]]
            stages = [Stage(file.stem, read_model(folder / file), runtime) for file in files]
            return cls(stages, entry["inputs"], entry["outputs"], states)
        except ReadError:
            raise
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ReadError(f"Cannot read stages from {folder}: {type(error).__name__}: {error}.") from error


class StagesSession:
    """Stages that are run step by step, each with its own states.

    Args:
      stages: the stages.
      sessions: the session of each.
    """

    def __init__(self, stages: Stages, sessions: Sequence[ModelSession]) -> None:
        self._stages, self.sessions = stages, sessions

    def step(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Run all stages once: the inputs that are no states by name → the outputs that are none by name.

        Raises:
          RuntimeInputError: the arrays do not fit, or a state would exceed its limit. The states of all stages stay as they are, unless
            one is updated in its own memory.
        """
        self._stages.check_step(feeds)
        states = {name for pair in self._stages.states for name in (pair.input, pair.output)}
        known = dict(feeds)
        for number, (stage, session) in enumerate(zip(self._stages.stages, self.sessions, strict=True)):
            try:
                known |= session.step({name: known[name] for name in stage.inputs if name not in states})
            except Exception:
                for before in self.sessions[:number]:
                    before.undo()
                raise
        return {name: known[name] for name in self._stages.outputs if name not in states}

    def reset(self) -> None:
        """Put all states back to what they were at first."""
        for session in self.sessions:
            session.reset()


def _check_names(wanted: Sequence[str], feeds: Mapping[str, Array]) -> None:
    if feeds.keys() != set(wanted):
        raise RuntimeInputError(
            f"The inputs are {', '.join(wanted) or 'none'}, but arrays were given for {', '.join(map(str, feeds)) or 'none'}."
        )
