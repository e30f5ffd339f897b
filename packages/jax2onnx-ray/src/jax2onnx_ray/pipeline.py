"""`Pipeline`: the stages of a program as actors, each of which keeps the states of its stage."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Mapping

import ray
from jax2onnx_graph.arrays import Array
from jax2onnx_graph.errors import RuntimeInputError
from jax2onnx_runtime.session import ModelSession
from jax2onnx_runtime.stages import Stage, Stages

__all__ = ["Pipeline", "StageActor", "StageOptions"]


@dataclasses.dataclass(frozen=True)
class StageOptions:
    """The options of the sessions of stages; see `Stage.session`.

    Attributes:
      initial: first values of states by the names of inputs.
      sizes: the sizes of symbols in states that begin with zeros.
      window: how many entries of a growing axis are kept.
      limits: how many entries of a growing axis there may be.
      threads: how many threads compute one operator.
    """

    initial: Mapping[str, Array] | None = None
    sizes: Mapping[str, int] | None = None
    window: Mapping[str, int] | None = None
    limits: Mapping[str, int] | None = None
    threads: int | None = 1


class StageActor:
    """A stage in a process of its own, with a session for each stream of steps.

    Args:
      stage: the stage.
      options: those of its sessions; see `Stage.session`.
      is_first: whether no other stage has run when this one refuses a step.
    """

    def __init__(self, stage: Stage, options: StageOptions, *, is_first: bool) -> None:
        self._stage, self._options, self._is_first = stage, options, is_first
        self._sessions: dict[Hashable, ModelSession] = {}
        self._broken: set[Hashable] = set()
        states = {pair.input for pair in stage.states}
        self._inputs = [name for name in stage.inputs if name not in states]

    def step(self, stream: Hashable, needed: set[str], *known: Mapping[str, Array]) -> dict[str, Array]:
        """Run a step of a stream.

        Args:
          stream: which session it belongs to; a new one begins with the states' first values.
          needed: the names of what is needed after this stage.
          known: what was known before it.

        Returns:
          What of it, and of the stage's results, is needed afterwards.

        Raises:
          RuntimeInputError: the stage refuses the step, or has refused one of the stream before, after which the states of other stages
            are ahead of its own.
        """
        if stream in self._broken:
            raise RuntimeInputError(
                f"A step of the stream {stream!r} failed after its first stage, whose states are one step ahead: end({stream!r}) forgets them."
            )
        arrays = {name: array for part in known for name, array in part.items()}
        if stream not in self._sessions:
            self._sessions[stream] = self._open()
        try:
            arrays |= self._sessions[stream].step({name: arrays[name] for name in self._inputs})
        except Exception:
            self._broken |= set() if self._is_first else {stream}
            raise
        return {name: array for name, array in arrays.items() if name in needed}

    def _open(self) -> ModelSession:
        of = self._options
        return self._stage.session(
            initial=of.initial, sizes=of.sizes, window=of.window, limits=of.limits, threads=of.threads
        )

    def shapes(self, stream: Hashable) -> dict[str, tuple[int, ...]]:
        """The shapes of the states that it keeps for a stream."""
        return {name: array.shape for name, array in self._sessions[stream].state.items()}

    def end(self, stream: Hashable) -> None:
        """Forget the states of a stream."""
        self._sessions.pop(stream, None)
        self._broken.discard(stream)


class Pipeline:
    """The stages of a program as actors. Arrays go from one to the next, states stay.

    Steps of different streams, such as the requests of several users, are under way at once, each in another stage. If the process
    of a stage dies its states are lost, and Ray raises an error for each step that was under way. A stream of which a stage behind the
    first refuses a step goes on after `end` alone, from its first values.

    Args:
      stages: the stages: `program.split(…)`.
      initial: first values of states by the names of inputs.
      sizes: the sizes of symbols in states that begin with zeros.
      window: how many entries of a growing axis are kept.
      limits: how many entries of a growing axis there may be.
      threads: how many threads compute one operator.
      cpus: how many processors Ray counts for a stage.

    Raises:
      OptionError: a state is in several stages, or an option fits none.
    """

    def __init__(
        self, stages: Stages, *, initial: Mapping[str, Array] | None = None, sizes: Mapping[str, int] | None = None,
        window: Mapping[str, int] | None = None, limits: Mapping[str, int] | None = None, threads: int | None = 1, cpus: float = 1,
    ) -> None:  # fmt: skip
        stages.check_session(initial=initial, sizes=sizes, window=window, limits=limits)
        self._stages = stages
        states = {name for pair in stages.states for name in (pair.input, pair.output)}
        self._outputs = [name for name in stages.outputs if name not in states]
        options = StageOptions(initial, sizes, window, limits, threads)
        actor = ray.remote(StageActor).options(num_cpus=cpus)
        self.actors = [actor.remote(stage, options, is_first=not number) for number, stage in enumerate(stages.stages)]

    def submit(self, feeds: Mapping[str, Array], stream: Hashable = 0) -> ray.ObjectRef[dict[str, Array]]:
        """Begin a step: the inputs that are no states by name → a reference of the outputs that are none by name.

        The next step of a stream may begin at once: the actors run its steps in order.

        Raises:
          RuntimeInputError: these are not the inputs that are no states.
        """
        self._stages.check_step(feeds)
        known: ray.ObjectRef[dict[str, Array]] | dict[str, Array] = dict(feeds)
        for number, actor in enumerate(self.actors):
            known = actor.step.remote(stream, self._stages.needed_after(number), known)
        return known

    def step(self, feeds: Mapping[str, Array], stream: Hashable = 0) -> dict[str, Array]:
        """Run a step, and wait for its outputs."""
        found = ray.get(self.submit(feeds, stream))
        return {name: found[name] for name in self._outputs}

    def state_shapes(self, stream: Hashable = 0) -> list[dict[str, tuple[int, ...]]]:
        """The shapes of the states of a stream, in each stage."""
        return ray.get([actor.shapes.remote(stream) for actor in self.actors])

    def end(self, stream: Hashable) -> None:
        """Forget the states of a stream."""
        ray.get([actor.end.remote(stream) for actor in self.actors])

    def close(self) -> None:
        """End the processes of the stages."""
        for actor in self.actors:
            ray.kill(actor)
