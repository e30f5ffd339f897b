"""`ModelSession`: a loaded model that is run step by step, and keeps its states in between."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

import numpy as np
from jax2onnx_graph import ir
from jax2onnx_graph.arrays import Array
from jax2onnx_graph.errors import OptionError, RuntimeInputError
from jax2onnx_graph.metadata import StatePair, read_states
from jax2onnx_graph.weights.binding import Rename

from jax2onnx_runtime._html import html_table
from jax2onnx_runtime.adapters.program_adapters import AdapterInputs
from jax2onnx_runtime.pytrees import PyTree
from jax2onnx_runtime.runtimes import Runtime
from jax2onnx_runtime.sizes import SymbolSpace
from jax2onnx_runtime.state_values import (
    Lock,
    States,
    StateSizes,
    capacities,
    check_labels,
    check_returns,
    first_value,
    of_shape,
    state_type,
)
from jax2onnx_runtime.states import RuntimeOptions, StatefulModel, StateType
from jax2onnx_runtime.unstacking import open_unstacked

__all__ = ["ModelSession", "StepInterface", "open_model", "open_session"]


class StepInterface(Protocol):
    """The arguments and results of one step, as inputs and outputs of a model with states."""

    def feeds(
        self, args: Sequence[PyTree], kwargs: Mapping[str, PyTree], states: Mapping[str, tuple[int, ...]]
    ) -> tuple[dict[str, Array], Mapping[str, int]]:
        """The inputs that are no states, checked together with the shapes of the states, and the sizes of the symbols.

        Args:
          args: the positional arguments of the step.
          kwargs: its keyword arguments.
          states: the shapes of the states, by the names of their inputs.
        """
        ...

    def result(self, outputs: Sequence[Array]) -> PyTree:
        """The result of the function without the new states, from the other outputs."""
        ...


class ModelSession:
    """A loaded model, run step by step. Threads that use one session wait for each other: a step is one at a time.

    Attributes:
      state: the states by the names of the inputs, to be read, set, saved and loaded.
      model: the model.
      types: the types of the states, by the names of the inputs.
      initial: the first values of the states.
      sizes: the sizes of the states, their windows and limits.
      space: the sizes that the symbols of the model may have.
      is_shared: whether other sessions of a bundle have states in common with this one.
    """

    def __init__(
        self, model: ir.Model, loaded: StatefulModel, interface: StepInterface, space: SymbolSpace, states: Mapping[str, StateType],
        sizes: StateSizes, initial: Mapping[str, Array], adapters: AdapterInputs, lock: Lock | None = None,
    ) -> None:  # fmt: skip
        self.model, self._loaded, self._interface, self.space, self.sizes = model, loaded, interface, space, sizes
        self._adapters, self._adapter = adapters, dict[str, Array]()
        self.types, self.initial = states, initial
        fixed = (s.name for s in states.values() if s.grows is None and all(isinstance(dim, int) for dim in s.dims))
        self._limited = [s for s in states.values() if s.grows is not None and s.labels[s.grows] in sizes.limits]
        self._lock = threading.RLock() if lock is None else lock
        self.is_shared = lock is not None
        self.state = States(loaded, states, sizes, self._lock)
        self.reset()
        self._shapes = {name: self._loaded.shape(name) for name in fixed}
        self._changing = [name for name in states if name not in self._shapes]

    @property
    def labels(self) -> set[str]:
        """The symbols and expressions that show axes of the states."""
        return {label for state in self.types.values() for label in state.labels if not label.isdigit()}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.state!r})"

    def _repr_html_(self) -> str:
        return html_table(("state", "type"), self.state.types().items(), type(self).__name__)

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError(
            "A session is not pickled, because its states are values of the runtime. Pickle the program, open a session there, and "
            "hand the states over: session.state.update(states), or session.state.save(path) and .load(path)."
        )

    def step(self, *args: PyTree, **kwargs: PyTree) -> PyTree:
        """Run the model once, on the arguments of the exported function without the states.

        Returns:
          What the function returns, without the new states; these are kept for the next step.

        Raises:
          RuntimeInputError: the arguments do not fit the model or the states, or a state would exceed its limit. The
            states stay as they are.
        """
        with self._lock:
            shapes = self._shapes | {name: self._loaded.shape(name) for name in self._changing}
            feeds, sizes = self._interface.feeds(args, kwargs, shapes)
            self._check_limits(sizes)
            return self._interface.result(self.run(feeds))

    def run(self, feeds: Mapping[str, Array]) -> list[Array]:
        """Run the model once, on arrays by name, which are not checked.

        Args:
          feeds: an array for each input that is no state and takes no adapter.

        Returns:
          The outputs that are no states, in order; the states move on.
        """
        with self._lock:
            outputs = self._loaded.run({**feeds, **self._adapter} if self._adapter else feeds)
            self.state.changes += 1
            self.state.cut_all()
        return outputs

    def undo(self) -> None:
        """Put the states back to what they were before the last step.

        Raises:
          RuntimeInputError: there was none, or a state was written over since: set by hand, or updated in its own memory.
        """
        with self._lock:
            self._loaded.undo()
            self.state.changes += 1

    def use_adapter(
        self, source: object, *, rename: Rename | None = None, scale: float = 1.0, partial: bool = False
    ) -> None:
        """Compute with a LoRA adapter from the next step on; with None, without one. The states stay as they are.

        Args:
          source: the adapter, as `program.adapters.read` takes it: a file, or matrices by name.
          rename: the names in the source by those of the model's inputs, where they differ.
          scale: a number that the product of each pair of matrices is multiplied with.
          partial: whether pairs may be missing, which then add nothing.

        Raises:
          OptionError, WeightsError: the model takes no adapters, or not this one; the one before it stays.
        """
        read = self._adapters.read
        arrays = {} if source is None else read(source, rename=rename, scale=scale, partial=partial)
        with self._lock:
            self._adapter = arrays

    def reset(self, **slots: Sequence[int]) -> None:
        """Put the states back to what they were at first; with `B=[2]`, only their entry 2 along the axes shown as `B`.

        Raises:
          OptionError: no state has such an axis, or one of another length, as a state has that grew.
        """
        known = {label for state in self.types.values() for label in state.labels}
        for label, places in slots.items():
            check_labels("reset", {label: 0}, known)
            if np.ndim(places) != 1:
                raise OptionError(f"reset: {label}={places!r}, but it is a list of entries, [{places!r}].")
        with self._lock:
            first = self.initial
            self.state.update({n: self._with_slots(self.types[n], first[n], slots) for n in first} if slots else first)
            if not slots:
                self.state.begin()

    def _with_slots(self, state: StateType, first: Array, slots: Mapping[str, Sequence[int]]) -> Array:
        """A state with some entries along some axes as they were at first."""
        array = self._loaded.read(state.name)
        fitting = of_shape(first, array.shape)
        for axis, label in enumerate(state.labels):
            if label not in slots:
                continue
            if fitting is None:
                raise OptionError(f"The state {state} has another size than at first; it can be reset as a whole only.")
            place = (slice(None),) * axis + (list(slots[label]),)
            try:
                array[place] = fitting[place]
            except IndexError as error:
                raise OptionError(
                    f"reset: {label}={slots[label]!r} are no entries along an axis of {array.shape[axis]}."
                ) from error
        return array

    def resize(self, **sizes: int) -> None:
        """Give the axes of the states that are shown as a symbol another size: cut at the end, or filled there.

        What is new is as all entries along the axes were at first, or zeros where these differed.
        """
        check_labels("resize", sizes, {label for state in self.types.values() for label in state.labels})
        with self._lock:
            before = {name: self._loaded.shape(name) for name in self.types}
            for name, state in self.types.items():
                if any(label in sizes for label in state.labels):
                    self._resize(name, state, sizes)
            if any(old > new for n in before for old, new in zip(before[n], self._loaded.shape(n), strict=True)):
                self.state.changes += 1

    def _resize(self, name: str, state: StateType, sizes: Mapping[str, int]) -> None:
        old = self._loaded.read(name)
        shape = tuple(sizes.get(label, size) for label, size in zip(state.labels, old.shape, strict=True))
        first = of_shape(self.initial[name], shape)
        new = np.zeros(shape, old.dtype) if first is None else first.copy()
        common = tuple(slice(min(a, b)) for a, b in zip(shape, old.shape, strict=True))
        new[common] = old[common]
        self._loaded.write(name, new)
        self.state.cut(name)

    def _check_limits(self, sizes: Mapping[str, int]) -> None:
        for state in self._limited:
            assert state.grows is not None
            limit, new = self.sizes.limits[state.labels[state.grows]], state.returns[state.grows]
            size = new if isinstance(new, int) else self.space.evaluate(new, sizes)
            if size > limit:
                raise RuntimeInputError(
                    f"The state {state} is full: axis {state.grows} would have {size} entries after this step, more than the limit "
                    f"{state.labels[state.grows]} = {limit}. Reset the session, give it a higher limit, or a window."
                )


def open_session(
    model: ir.Model, load: Callable[[Sequence[StatePair]], StatefulModel], interface: StepInterface, space: SymbolSpace,
    *, initial: Mapping[str, Array], sizes: StateSizes, adapters: AdapterInputs,
    held: Mapping[str, Array] = MappingProxyType({}), lock: Lock | None = None,
) -> ModelSession:  # fmt: skip
    """A session of a model with the states that its metadata names.

    Args:
      model: the model.
      load: loads it with these states.
      interface: the arguments and results of a step.
      space: the sizes that the symbols may have.
      initial: first values of states; the others begin with zeros, those that grow empty.
      sizes: sizes of symbols in the states.
      adapters: the inputs that take LoRA adapters.
      held: values of states that the model was exported with, which are first values in the sizes that are asked for.
      lock: what is held during a step, where several sessions have states in common.

    Raises:
      OptionError: something in `initial` or `sizes` fits no state, or the first value of a state does not follow from them.
    """
    pairs = read_states(model)
    states = {pair.input: state_type(model, pair) for pair in pairs}
    for name in initial.keys() - states.keys():
        raise OptionError(f"initial: there is no state {name!r}; the states are {', '.join(states) or 'none'}.")
    growing = {s.labels[s.grows] for s in states.values() if s.grows is not None}
    if both := sizes.window.keys() & sizes.limits.keys():
        raise OptionError(
            f"The axis {min(both)!r} has a window and a limit: with a window it never grows beyond it. Give one of them."
        )
    check_labels("sizes", sizes.sizes, {label for s in states.values() for label in s.labels})
    check_labels("window", sizes.window, growing)
    check_labels("limits", sizes.limits, growing | capacities(model, states))
    for state in states.values():
        check_returns(state, sizes)
    first = {name: first_value(state, initial, held, sizes.sizes, space) for name, state in states.items()}
    return ModelSession(model, load(pairs), interface, space, states, sizes, first, adapters, lock)


def open_model(
    model: ir.Model, runtime: Runtime, interface: StepInterface, space: SymbolSpace, *, sizes: StateSizes, options: RuntimeOptions,
    file: Path | None = None, initial: Mapping[str, Array] = MappingProxyType({}), held: Mapping[str, Array] = MappingProxyType({}),
) -> ModelSession:  # fmt: skip
    """A session of a model in its runtime, with stacked states taken apart where that is possible; see `open_session`.

    Args:
      model: the model.
      runtime: what runs it.
      interface: the arguments and results of a step.
      space: the sizes that the symbols may have.
      sizes: sizes of symbols in the states.
      options: how the runtime is to run the model.
      file: the file that the model was read from, which the runtime then loads itself.
      initial: first values of states by the names of inputs; the others begin with zeros, those that grow empty.
      held: values of states that the model was exported with, which are first values in the sizes that are asked for.

    Raises:
      OptionError: an option fits no state, or the first value of a state does not follow from them.
      TargetError: the runtime is not installed, or cannot load the model.
    """
    return open_session(
        model, lambda _: open_unstacked(runtime.installed_or_reference(), file or model, model, options), interface, space,
        initial=initial, sizes=sizes, adapters=AdapterInputs(model, runtime), held=held,
    )  # fmt: skip
