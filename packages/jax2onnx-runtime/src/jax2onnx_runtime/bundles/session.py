"""`BundleSession`: the programs of a bundle, loaded once each, with states that they have in common."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from jax2onnx_graph import ir
from jax2onnx_graph.arrays import Array
from jax2onnx_graph.errors import OptionError, RuntimeInputError
from jax2onnx_graph.metadata import read_states

from jax2onnx_runtime.adapters.program_adapters import AdapterInputs
from jax2onnx_runtime.bundles.links import Link, LinkedSteps, read_by
from jax2onnx_runtime.feeds import symbol_space
from jax2onnx_runtime.program import Program
from jax2onnx_runtime.pytrees import PyTree
from jax2onnx_runtime.session import ModelSession, open_session
from jax2onnx_runtime.state_values import Lock, SavedStates, StateSizes, check_known
from jax2onnx_runtime.states import RuntimeOptions, StatefulModel
from jax2onnx_runtime.unstacking import StackedStates, Unstacked

__all__ = ["BundleSession", "BundleStates", "Loadable"]


@dataclasses.dataclass(frozen=True)
class Loadable:
    """A program with what the runtime loads of it.

    Attributes:
      program: the program.
      unstacked: its model with stacked states as states of their own, where it has some.
      file: the file of that model, or of its own; None where it is in memory.
    """

    program: Program
    unstacked: Unstacked | None = None
    file: Path | None = None

    @property
    def model(self) -> ir.Model:
        """The model that is loaded."""
        return self.program.model if self.unstacked is None else self.unstacked.model

    def open(self, options: RuntimeOptions, beside: StatefulModel | None) -> StatefulModel:
        """Load the model beside another one, with which it has states in common."""
        return self.program.runtime.installed().open(self.file or self.model, read_states(self.model), options, beside)


class BundleStates(SavedStates):
    """The states of all programs by the names of the inputs; what several programs have by one name is one state."""

    holder = "bundle"

    def __init__(self, sessions: Mapping[str, ModelSession], lock: Lock) -> None:
        self._lock = lock
        self._owners = {name: session for session in reversed([*sessions.values()]) for name in session.state}

    def __getitem__(self, name: str) -> Array:
        return self._owner(name).state[name]

    def __setitem__(self, name: str, array: Array) -> None:
        self._owner(name).state[name] = array

    def __iter__(self) -> Iterator[str]:
        return iter(self._owners)

    def __len__(self) -> int:
        return len(self._owners)

    def _owner(self, name: str) -> ModelSession:
        if name not in self._owners:
            raise KeyError(f"There is no state {name!r}; the states are {', '.join(self._owners) or 'none'}.")
        return self._owners[name]

    def fitting(self, name: str, array: Array) -> Array:
        """The value that a state is set to. Raises KeyError where there is no such state, RuntimeInputError where it does not fit."""
        return self._owner(name).state.fitting(name, array)

    def checked(self, name: str, array: Array) -> Array:
        """The value of a state that was read from a file. Raises RuntimeInputError where it does not fit."""
        return self._owners[name].state.checked(name, array)


class BundleSession(Mapping[str, ModelSession]):
    """The loaded programs of a bundle by their names, each a session, with the states that they have in common.

    Threads that use one bundle session wait for each other: a step is one at a time.

    Attributes:
      state: the states of all programs, to be read, set, saved and loaded.
    """

    def __init__(
        self, programs: Mapping[str, Loadable], links: Sequence[Link], sizes: StateSizes,
        initial: Mapping[str, Array], options: RuntimeOptions,
    ) -> None:  # fmt: skip
        check_known([loadable.program.model for loadable in programs.values()], sizes, initial)
        self._links, self._lock = links, threading.RLock()
        self._arrays: dict[tuple[str, str], Array] = {}
        self._sessions: dict[str, ModelSession] = {}
        first: StatefulModel | None = None
        whole = {name: loadable.program for name, loadable in programs.items()}
        for name, loadable in programs.items():
            reads = read_by(name, whole, links)
            first = self._open(name, loadable, sizes, initial, options, first, reads)
        self.state = BundleStates(self._sessions, self._lock)
        self._beside = {name: [*self._with_states_of(name)] for name in self._sessions}

    def _open(
        self, name: str, loadable: Loadable, sizes: StateSizes, initial: Mapping[str, Array], options: RuntimeOptions,
        first: StatefulModel | None, reads: Sequence[str],
    ) -> StatefulModel:  # fmt: skip
        """Load a program beside the first one, and return the first."""
        program = loadable.program
        own = {pair.input for pair in read_states(program.model)}
        loaded = loadable.open(options, first)
        model = loaded if loadable.unstacked is None else StackedStates(loaded, loadable.unstacked.stacks)
        begun = {state: array for session in self._sessions.values() for state, array in _shared(session, own)}
        links = [link for link in self._links if link.target == name and link.input not in own]
        try:
            self._sessions[name] = open_session(
                program.model, lambda _: model, LinkedSteps(name, program, links, reads, model.shape, self._arrays, self._hand_over),
                symbol_space(program.model),
                initial={state: array for state, array in {**initial, **begun}.items() if state in own},
                held=program.interface.held_states(), sizes=sizes.for_model(program.model), lock=self._lock,
                adapters=AdapterInputs(program.model, program.runtime),
            )  # fmt: skip
        except (OptionError, RuntimeInputError) as error:
            raise OptionError(f"The program {name!r}: {error}") from error
        return loaded if first is None else first

    def __getitem__(self, name: str) -> ModelSession:
        if name not in self._sessions:
            raise KeyError(f"There is no program {name!r}; the programs are {', '.join(self._sessions)}.")
        return self._sessions[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._sessions)

    def __len__(self) -> int:
        return len(self._sessions)

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("A session is not pickled, because its states are values of the runtime. Pickle the bundle.")

    def step(self, program: str, /, *args: PyTree, **kwargs: PyTree) -> PyTree:
        """Run a program once, on the arguments of its function without the states and the linked inputs.

        Returns:
          What the function returns, without the new states.

        Raises:
          RuntimeInputError: the arguments do not fit, or a program from which an input comes has not run yet.
        """
        if program not in self._sessions:
            raise OptionError(f"There is no program {program!r}; the programs are {', '.join(self._sessions)}.")
        return self._sessions[program].step(*args, **kwargs)

    def _with_states_of(self, name: str) -> Iterator[ModelSession]:
        """The other sessions that have states in common with one."""
        states = self._sessions[name].state.keys()
        return (one for other, one in self._sessions.items() if other != name and states & one.state.keys())

    def _hand_over(self, name: str, outputs: Mapping[str, Array]) -> None:
        """Take the outputs of a program to where links lead, and let programs with its states know that these moved on."""
        for session in self._beside[name]:
            session.state.changes += 1
        for link in self._links:
            if link.source == name:
                states = self._sessions[link.target].state
                if link.input in states:
                    states[link.input] = outputs[link.output]
                else:
                    self._arrays[link.target, link.input] = outputs[link.output]

    def reset(self, **slots: Sequence[int]) -> None:
        """Put the states back to what they were at first; with `B=[2]`, only their entry 2 along the axes shown as `B`."""
        with self._lock:
            for session in self._chosen(slots) if slots else self._sessions.values():
                session.reset(**{label: slots[label] for label in slots if label in session.labels})
            if not slots:
                self._arrays.clear()

    def resize(self, **sizes: int) -> None:
        """Give the axes of the states that are shown as a symbol another size; see `ModelSession.resize`."""
        with self._lock:
            for session in self._chosen(sizes):
                session.resize(**{label: size for label, size in sizes.items() if label in session.labels})

    def _chosen(self, labels: Mapping[str, object]) -> list[ModelSession]:
        """The sessions that have states with such axes; each label is known to one of them."""
        known = {label for session in self._sessions.values() for label in session.labels}
        if unknown := [label for label in labels if label not in known]:
            raise OptionError(f"No axis of a state is {unknown[0]!r}; there are: {', '.join(sorted(known)) or 'none'}.")
        return [session for session in self._sessions.values() if session.labels & labels.keys()]


def _shared(session: ModelSession, names: set[str]) -> Iterator[tuple[str, Array]]:
    """The states of a session that are among `names`."""
    return ((name, session.state[name]) for name in session.state if name in names)
