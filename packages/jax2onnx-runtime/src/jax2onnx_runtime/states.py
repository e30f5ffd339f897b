"""`StatefulModel`: a loaded model that keeps its states between runs, and `NumpyStates`, which keeps them as NumPy arrays."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from jax2onnx_graph import ir
from jax2onnx_graph.arrays import Array, Dtype
from jax2onnx_graph.errors import RuntimeInputError
from jax2onnx_graph.metadata import StatePair

__all__ = ["NumpyStates", "RuntimeOptions", "StateType", "StatefulModel", "check_undo", "last"]


@dataclasses.dataclass(frozen=True)
class StateType:
    """The type of a state: what the input and the output that hold it are, and which axis grows.

    Attributes:
      name: the name of the input.
      dtype: the element type.
      dims: the dimensions of the input, numbers or labels.
      labels: the dimensions as they were before symbols were fixed to numbers.
      grows: the axis along which the output may be longer than the input, if there is one.
      returns: the dimensions of the output.
    """

    name: str
    dtype: Dtype
    dims: tuple[int | str, ...]
    labels: tuple[str, ...]
    grows: int | None
    returns: tuple[int | str, ...]

    def __str__(self) -> str:
        return f"{self.name!r}, {self.dtype}[{', '.join(map(str, self.dims))}]"


@dataclasses.dataclass(frozen=True)
class RuntimeOptions:
    """Options for loading a model in a runtime; None leaves a choice to the runtime.

    Attributes:
      threads: how many threads compute one operator.
      providers: the devices, or the libraries for them, the preferred one first, in the runtime's own terms.
      session_options: the runtime's own options.
      graph_optimization_level: how far the runtime may rewrite the graph: "all", "extended", "basic" or "disabled".
      share_weights: whether the weights stay in memory as they are in the file, so that all programs that are loaded from it share
        them; kernels do not rearrange them for their own use then, with which products of several rows take longer.
      arena: whether the memory of intermediate values stays with the session after a run; a runtime that has no arena ignores it.
      flush_denormals: whether denormal numbers are taken for zeros, as XLA does; a runtime that has no such choice ignores it.
    """

    threads: int | None = None
    providers: Sequence[Any] | None = None
    session_options: Any = None
    graph_optimization_level: str | None = None
    share_weights: bool | None = None
    arena: bool | None = None
    flush_denormals: bool | None = None

    def given(self) -> list[str]:
        """The names of the options that a runtime has to follow."""
        return [
            name for name, value in vars(self).items() if name not in ("arena", "flush_denormals") and value is not None
        ]


class StatefulModel(Protocol):
    """A loaded model whose states are values of its runtime; states are named after the inputs."""

    def run(self, inputs: Mapping[str, Array]) -> list[Array]:
        """Run the model on the inputs that are no states; the outputs that are none, in order. The states move on."""
        ...

    def read(self, state: str) -> Array:
        """A copy of a state."""
        ...

    def write(self, state: str, array: Array) -> None:
        """Replace a state by a copy of the array."""
        ...

    def keep_last(self, state: str, axis: int, count: int) -> None:
        """Let a state have its last entries along an axis only."""
        ...

    def change(self, state: str, change: Callable[[Array], Array]) -> None:
        """Replace a state by what a function makes of it; the function gets an array that it must not write to."""
        ...

    def shape(self, state: str) -> tuple[int, ...]:
        """The shape of a state."""
        ...

    def undo(self) -> None:
        """Put the states back to what they were before the last run. Raises RuntimeInputError where one was written over since."""
        ...


def check_undo(lost: Sequence[str]) -> None:
    """Raise RuntimeInputError where states have no value of before the last run."""
    if lost:
        raise RuntimeInputError(
            f"The last run cannot be taken back: the state {lost[0]!r} has no value of before. There was no run, it was taken back, or "
            "the state was set since, by another program, too, or is updated in its own memory."
        )


def last(array: Array, axis: int, count: int) -> Array:
    """The last `count` entries of an array along an axis, in its memory."""
    return array[(slice(None),) * axis + (slice(array.shape[axis] - count, None),)]


class NumpyStates:
    """Keeps the states of a model that a function runs: named arrays → the outputs, in order.

    Args:
      model: the model.
      pairs: its states.
      run: runs it.
      beside: another model, whose states of the same names are the same; inputs of these names that get no array are these states.

    Attributes:
      values: the states by their names, those of `beside` among them.
      before: what ran last with each of them that nothing has set since, and its value before.
    """

    def __init__(
        self, model: ir.Model, pairs: Sequence[StatePair], run: Callable[[Mapping[str, Array]], list[Array]],
        beside: NumpyStates | None = None,
    ) -> None:  # fmt: skip
        self._run = run
        self._outputs = [value.name for value in model.graph.outputs]
        self._input_of = {pair.output: pair.input for pair in pairs}
        self._inputs = [str(value.name) for value in model.graph.inputs]
        self.values: dict[str, Array] = {} if beside is None else beside.values
        self.before: dict[str, tuple[NumpyStates, Array]] = {} if beside is None else beside.before

    def run(self, inputs: Mapping[str, Array]) -> list[Array]:
        """One run of the model."""
        own = {name: self.values[name] for name in self._inputs if name in self.values and name not in inputs}
        named = dict(zip(self._outputs, self._run({**inputs, **own}), strict=True))
        self.before.update({state: (self, own[state]) for state in self._input_of.values()})
        self.values.update({state: named[output] for output, state in self._input_of.items()})
        return [array for name, array in named.items() if name not in self._input_of]

    def read(self, state: str) -> Array:
        """A copy of a state."""
        return self.values[state].copy()

    def write(self, state: str, array: Array) -> None:
        """Replace a state."""
        self.values[state] = array.copy()
        self.before.pop(state, None)

    def keep_last(self, state: str, axis: int, count: int) -> None:
        """Cut off what is before the last entries along an axis."""
        self.values[state] = last(self.values[state], axis, count).copy()

    def change(self, state: str, change: Callable[[Array], Array]) -> None:
        """Replace a state by what a function makes of it."""
        self.write(state, change(self.values[state]))

    def shape(self, state: str) -> tuple[int, ...]:
        """The shape of a state."""
        return tuple(self.values[state].shape)

    def undo(self) -> None:
        """Put the states back to what they were before the last run."""
        before = {state: found for state in self._input_of.values() if (found := self.before.get(state)) is not None}
        check_undo([state for state in self._input_of.values() if state not in before or before[state][0] is not self])
        for state, (_, array) in before.items():
            self.write(state, array)
