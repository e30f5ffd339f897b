"""The states of a session: their sizes, their first values, and the mapping in which a session shows them."""

from __future__ import annotations

import abc
import contextlib
import dataclasses
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, MutableMapping, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
from jax2onnx_graph import ir
from jax2onnx_graph.arrays import Array
from jax2onnx_graph.errors import OptionError, RuntimeInputError
from jax2onnx_graph.labels import fixed_labels, symbols_in
from jax2onnx_graph.metadata import StatePair, read_states
from jax2onnx_graph.options import check_mapping
from jax2onnx_graph.saving.writing import replaced_file

from jax2onnx_runtime.array_files import UNREADABLE, read_arrays, restored, write_arrays
from jax2onnx_runtime.sizes import SymbolSpace
from jax2onnx_runtime.states import StatefulModel, StateType

__all__ = [
    "Lock",
    "SavedStates",
    "StateSizes",
    "States",
    "capacities",
    "check_known",
    "check_labels",
    "check_returns",
    "first_value",
    "of_shape",
    "state_type",
]

Lock: TypeAlias = contextlib.AbstractContextManager[object]
"""A lock, which one thread at a time holds, more than once if it likes."""


@dataclasses.dataclass(frozen=True)
class StateSizes:
    """The sizes of a session's states, by the symbol (or expression) that shows an axis.

    Attributes:
      sizes: those that states begin with.
      window: how many entries of a growing axis are kept, the last ones.
      limits: how many entries a growing axis may have at most; and a capacity, up to which a decoder's caches are widened.

    Raises:
      OptionError: one of them is no mapping.
    """

    sizes: Mapping[str, int] = dataclasses.field(default_factory=dict)
    window: Mapping[str, int] = dataclasses.field(default_factory=dict)
    limits: Mapping[str, int] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        for option, given in vars(self).items():
            check_mapping(option, given, "symbols to numbers, {'S': 4}")

    def for_model(self, model: ir.Model) -> StateSizes:
        """The sizes, windows and limits of the symbols that the states of this model have; others are left out."""
        states = {pair.input: state_type(model, pair) for pair in read_states(model)}
        labels = {label for state in states.values() for label in state.labels}
        growing = {state.labels[state.grows] for state in states.values() if state.grows is not None}
        limited = growing | capacities(model, states)

        def chosen(sizes: Mapping[str, int], known: set[str]) -> dict[str, int]:
            return {label: size for label, size in sizes.items() if label in known}

        return StateSizes(chosen(self.sizes, labels), chosen(self.window, growing), chosen(self.limits, limited))


class SavedStates(MutableMapping[str, Array], abc.ABC):
    """States by the names of inputs, which are written to files and read from them.

    Attributes:
      holder: what has them, for messages.
    """

    holder = "model"
    _lock: Lock

    def __delitem__(self, name: str) -> None:
        raise TypeError(f"A {self.holder} has all of its states; set one instead, or reset the session.")

    @abc.abstractmethod
    def fitting(self, name: str, array: Array) -> Array:
        """The value that a state is set to. Raises KeyError where there is no such state, RuntimeInputError where it does not fit."""

    def update(self, *given: Mapping[str, Array] | Iterable[tuple[str, Array]], **named: Array) -> None:  # type: ignore[override]
        """Set several states: all of them, or none where one does not fit."""
        arrays = {name: self.fitting(name, array) for name, array in dict(*given, **named).items()}
        with self._lock:
            super().update(arrays)

    @abc.abstractmethod
    def checked(self, name: str, array: Array) -> Array:
        """The value of a state that was read from a file. Raises RuntimeInputError where it does not fit."""

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the states to a file of NumPy's (`.npz`); a file that was there is replaced once the new one is whole.

        Raises:
          SaveError: nothing can be written there.
        """
        with replaced_file(path) as stream, self._lock:
            write_arrays(stream, self)
        return Path(path)

    def load(self, path: str | os.PathLike[str]) -> None:
        """Read the states from a file that `save` has written.

        Raises:
          RuntimeInputError: the file holds other states, or of other types; those that are there stay.
        """
        try:
            found = read_arrays(Path(path))
        except UNREADABLE as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else type(error).__name__
            raise RuntimeInputError(
                f"{path} holds no states that a session has saved ({reason}). Give a file that state.save has written."
            ) from error
        if found.keys() != self.keys():
            raise RuntimeInputError(
                f"{path} holds the states {', '.join(found) or 'none'}, but those of the {self.holder} are {', '.join(self)}."
            )
        self.update({name: self.checked(name, array) for name, array in found.items()})


class States(SavedStates):
    """The states of a session by the names of the inputs; reading makes a copy, and so does writing.

    Attributes:
      changes: how often they were changed: by runs, or by setting them.
    """

    def __init__(
        self, loaded: StatefulModel, states: Mapping[str, StateType], sizes: StateSizes, lock: Lock
    ) -> None:  # fmt: skip
        self._loaded, self._states = loaded, states
        growing = {state.name: state.labels[state.grows] for state in states.values() if state.grows is not None}
        self._windows = {name: sizes.window[label] for name, label in growing.items() if label in sizes.window}
        self._lock = lock  # held while the model runs
        self.changes = self._changes_at_first = 0

    def __getitem__(self, name: str) -> Array:
        self._check(name)
        with self._lock:
            return self._loaded.read(name)

    def __setitem__(self, name: str, array: Array) -> None:
        checked = self.fitting(name, array)
        with self._lock:
            self.changes += 1
            self._loaded.write(name, checked)
            self.cut(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._states)

    def __len__(self) -> int:
        return len(self._states)

    def __repr__(self) -> str:
        return f"States({', '.join(f'{name}: {type_}' for name, type_ in self.types().items())})"

    @property
    def are_first(self) -> bool:
        """Whether nothing has changed the states since the session was opened or reset."""
        return self.changes == self._changes_at_first

    def begin(self) -> None:
        """Take the states as they are now for those at first."""
        self.changes += 1
        self._changes_at_first = self.changes

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a state."""
        return self._loaded.shape(name)

    def change(self, name: str, change: Callable[[Array], Array]) -> None:
        """Replace a state by what a function makes of it; the function gets an array that it must not write to."""
        with self._lock:
            self._loaded.change(name, change)
            self.changes += 1

    def types(self) -> dict[str, str]:
        """The type of each state as it is now: "float32[1, 3, 8]"."""
        return {name: f"{state.dtype}{list(self._loaded.shape(name))}" for name, state in self._states.items()}

    def _check(self, name: str) -> None:
        if name not in self._states:
            raise KeyError(f"There is no state {name!r}; the states are {', '.join(self._states) or 'none'}.")

    def cut_all(self) -> None:
        """Keep the last entries of all states that have a window."""
        for name in self._windows:
            self.cut(name)

    def cut(self, name: str) -> None:
        """Keep the last entries of a state that grows, as many as its window has."""
        axis, window = self._states[name].grows, self._windows.get(name)
        if axis is not None and window is not None and self._loaded.shape(name)[axis] > window:
            self._loaded.keep_last(name, axis, window)

    def fitting(self, name: str, array: Array) -> Array:
        """The value that a state is set to. Raises KeyError where there is no such state, RuntimeInputError where it does not fit."""
        self._check(name)
        return _checked(self._states[name], array)

    def checked(self, name: str, array: Array) -> Array:
        """The value of a state that was read from a file. Raises RuntimeInputError where it does not fit."""
        return _checked(self._states[name], restored(array, self._states[name].dtype))


def first_value(
    state: StateType,
    initial: Mapping[str, Array],
    held: Mapping[str, Array],
    sizes: Mapping[str, int],
    space: SymbolSpace,
) -> Array:
    """The first value of a state: the given one, that which the model was exported with, or zeros."""
    if state.name in initial:
        return np.array(initial[state.name])
    if state.name not in held:
        return _zeros(state, sizes, space)
    value = held[state.name]
    known = {**{dim: n for dim, n in zip(state.dims, value.shape, strict=True) if isinstance(dim, str)}, **sizes}
    shape = tuple(_size(dim, known, space) for dim in state.dims)
    found = of_shape(value, shape)
    if found is None:
        raise OptionError(
            f"The state {state} was exported with a value of shape {value.shape} that is not the same everywhere along the axes "
            f"that change, so that it has none of shape {shape}. Give the value, initial={{{state.name!r}: …}}, or export "
            "the model before its first step."
        )
    return found


def _size(dim: int | str, sizes: Mapping[str, int], space: SymbolSpace) -> int:
    """The size of a dimension, some of whose symbols, or which itself, has a size."""
    if isinstance(dim, int):
        return dim
    symbols = symbols_in(dim)
    return space.evaluate(dim, sizes) if dim not in symbols and symbols <= sizes.keys() else sizes[dim]


def of_shape(array: Array, shape: tuple[int, ...]) -> Array | None:
    """An array of that shape with the numbers of another one, which are the same along the axes that differ; else None."""
    changes = [a != b for a, b in zip(array.shape, shape, strict=True)]
    if not any(changes):
        return array
    if any(size == 0 for size, change in zip(array.shape, changes, strict=True) if change):
        return None
    bits = array.view(f"u{array.itemsize}") if array.dtype != bool else array
    row = tuple(slice(1 if change else None) for change in changes)
    return np.broadcast_to(array[row], shape) if (bits == bits[row]).all() else None


def capacities(model: ir.Model, states: Mapping[str, StateType]) -> set[str]:
    """The symbols that are sizes of states which do not grow, and not how many rows there are."""
    rows = {str(dims[0]) for value in model.graph.inputs if value.name not in states and (dims := _dims(value))}
    return {label for s in states.values() if s.grows is None for label in s.labels if not label.isdigit()} - rows


def check_labels(option: str, values: Mapping[str, int], known: set[str]) -> None:
    """Raise OptionError where an option has a size for a label that no state has, or no size at all.

    Args:
      option: the name of the option, for the message.
      values: label → size.
      known: the labels that it may be about.
    """
    for label, size in values.items():
        if label not in known:
            shown = ", ".join(sorted(k for k in known if not k.isdigit())) or "none"
            raise OptionError(f"{option}: no axis of a state that it can be about is {label!r}; there are: {shown}.")
        if isinstance(size, bool) or not isinstance(size, int) or size < 0:
            raise OptionError(f"{option}: {label} = {size!r}, but a size is a whole number from 0 on.")


def check_known(models: Sequence[ir.Model], sizes: StateSizes, initial: Collection[str]) -> None:
    """Raise OptionError where sizes, or the names of first values, are about no state of any of several models."""
    states = {pair.input for model in models for pair in read_states(model)}
    if unknown := [name for name in initial if name not in states]:
        raise OptionError(
            f"initial: there is no state {unknown[0]!r}; the states are {', '.join(sorted(states)) or 'none'}."
        )
    used = [sizes.for_model(model) for model in models]
    for option, given in vars(sizes).items():
        for label in given:
            if not any(label in vars(one)[option] for one in used):
                raise OptionError(f"{option}: no axis of a state that it can be about is {label!r}.")


def state_type(model: ir.Model, pair: StatePair) -> StateType:
    """The type of a state of a finished model."""
    before = next(value for value in model.graph.inputs if value.name == pair.input)
    after = next(value for value in model.graph.outputs if value.name == pair.output)
    assert before.dtype is not None, "the inputs of a finished model have types"
    dims, returns = _dims(before), _dims(after)
    shown = tuple(fixed_labels(before)) or tuple(map(str, dims))
    return StateType(pair.input, before.dtype.numpy(), dims, shown, pair.grows, returns)


def _dims(value: ir.Value) -> tuple[int | str, ...]:
    assert value.shape is not None, "the inputs and outputs of a finished model have shapes"
    return tuple(d if isinstance(d, int) else str(d.value) for d in value.shape)


def check_returns(state: StateType, sizes: StateSizes) -> None:
    """Raise if a state of fixed sizes comes back longer than the model takes it, and nobody cuts it."""
    if state.grows is None or not isinstance(state.dims[state.grows], int):
        return
    size, label = state.dims[state.grows], state.labels[state.grows]
    if sizes.window.get(label) != size:
        raise OptionError(
            f"The model takes the state {state} and returns it with {state.returns[state.grows]} entries along axis {state.grows}. "
            f"window={{{label!r}: {size}}} keeps the last {size} of them."
        )


def _zeros(state: StateType, sizes: Mapping[str, int], space: SymbolSpace) -> Array:
    """The first value of a state that has no other: zeros, none of them along the axis that grows."""

    def size(axis: int, dim: int | str) -> int:
        if isinstance(dim, int):
            return dim
        if dim in sizes:
            return sizes[dim]
        if axis == state.grows:
            if space.allows({dim: 0}):
                return 0
            problem = f"it cannot be empty; to_onnx(…, constraints=['{dim} >= 0']) would allow it"
        elif symbols_in(dim) <= sizes.keys():
            return space.evaluate(dim, sizes)
        else:
            problem = f"the size of axis {axis} is not known"
        raise OptionError(
            f"The state {state} has no first value: {problem}. Give sizes={{{dim!r}: …}}, or the value, "
            f"initial={{{state.name!r}: …}}."
        )

    return np.zeros([size(axis, dim) for axis, dim in enumerate(state.dims)], state.dtype)


def _checked(state: StateType, array: Array) -> Array:
    """The value of a state as an array of its type. Raises RuntimeInputError."""
    array = np.asarray(array)
    fits = len(array.shape) == len(state.dims) and all(
        isinstance(dim, str) or dim == size or axis == state.grows
        for axis, (dim, size) in enumerate(zip(state.dims, array.shape, strict=True))
    )
    if array.dtype != state.dtype or not fits:
        raise RuntimeInputError(f"The state {state} cannot be {array.dtype}{list(array.shape)}.")
    return array
