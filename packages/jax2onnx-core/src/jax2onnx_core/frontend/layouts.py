"""Layouts: the order of axes in which a model takes and gives arrays, where the function has another."""

from __future__ import annotations

import dataclasses
import fnmatch
from collections.abc import Mapping, Sequence
from typing import TypeVar

import numpy as np
from jax2onnx_graph.arrays import Array
from jax2onnx_graph.errors import OptionError
from jax2onnx_graph.metadata import StatePair

__all__ = ["NO_LAYOUTS", "GivenLayouts", "Layout", "Layouts"]

T = TypeVar("T")
#: Layouts as users write them, by name or position.
GivenLayouts = Mapping[str, str] | Mapping[int, str] | Mapping[str | int, str]

_FORMS = (
    "'NHWC->NCHW', from the axes of the function to those of the model, or 'NCHW' for a function with its channels last"
)


@dataclasses.dataclass(frozen=True)
class Layout:
    """The axes of an array in the function, and in the model: a letter for each."""

    function: str
    model: str

    @classmethod
    def read(cls, text: object) -> Layout:
        """The layout that a text stands for: `NHWC->NCHW`, or `NCHW`, which is the same.

        >>> Layout.read("NWC -> NCW").perm, str(Layout.read("CHW"))
        ((0, 2, 1), 'HWC->CHW')

        Raises:
          OptionError: it stands for none.
        """
        before, arrow, after = (part.strip() for part in (text if isinstance(text, str) else "").partition("->"))
        if not arrow and "C" in before:
            before, after = before.replace("C", "") + "C", before
        if not before.isalpha() or len(set(before)) < len(before) or sorted(before) != sorted(after):
            raise OptionError(f"{text!r} is no layout. A layout has a letter for each axis, each once: {_FORMS}.")
        return cls(before, after)

    @property
    def perm(self) -> tuple[int, ...]:
        """The axis of the function by the axis of the model."""
        return tuple(map(self.function.index, self.model))

    def reversed(self) -> Layout:
        return Layout(self.model, self.function)

    def __str__(self) -> str:
        return f"{self.function}->{self.model}"

    def arranged(self, dims: Sequence[T]) -> tuple[T, ...]:
        """The dimensions of an array of the function in the order of the model; axes of components stay behind them.

        Those of another rank, which is somebody's mistake, stay as they are.
        """
        if len(dims) < len(self.perm):
            return tuple(dims)
        return (*(dims[axis] for axis in self.perm), *dims[len(self.perm) :])


@dataclasses.dataclass(frozen=True)
class Layouts:
    """The inputs and outputs that have a layout, by name; others are in the model as they are in the function."""

    by_name: Mapping[str, Layout] = dataclasses.field(default_factory=dict)

    @classmethod
    def read(cls, what: str, given: object, names: Sequence[str], shapes: Sequence[Sequence[object]]) -> Layouts:
        """The layouts that users give for inputs or outputs.

        Args:
          what: "input" or "output", for messages.
          given: a mapping of names, in which `*` stands for anything, or of positions, to layouts; None for none.
          names: those of the inputs or outputs, in order.
          shapes: their shapes in the function.

        Raises:
          OptionError: there is no such input or output, it has another rank, or what is given is no layout.
        """
        if given is None:
            return cls()
        if not isinstance(given, Mapping):
            raise OptionError(
                f"{what}_layouts maps names or positions to layouts, {{'x': 'NCHW'}}; {given!r:.80} does not."
            )
        found: dict[str, Layout] = {}
        for key, text in given.items():
            named = _named(key, names)
            if not named:
                raise OptionError(f"{what}_layouts: there is no {what} {key!r}; the {what}s are {', '.join(names)}.")
            layout = Layout.read(text)
            for name in named:
                rank = len(shapes[names.index(name)])
                if rank != len(layout.model):
                    raise OptionError(
                        f"{what}_layouts: {name!r} has {rank} axes, the layout {text!r} has {len(layout.model)}."
                    )
                if name in found:
                    raise OptionError(f"{what}_layouts: {name!r} has two layouts, by {key!r} and by another key.")
                found[name] = layout
        return cls(found)

    def __or__(self, other: Layouts) -> Layouts:
        return Layouts({**self.by_name, **other.by_name})

    def texts(self) -> dict[str, str]:
        """The layouts as `read` takes them."""
        return {name: str(layout) for name, layout in self.by_name.items()}

    def arranged(self, name: str, dims: Sequence[T]) -> tuple[T, ...]:
        """Dimensions, or what stands for them, in the order of the model."""
        return self.by_name[name].arranged(dims) if name in self.by_name else tuple(dims)

    def restored(self, name: str, dims: Sequence[T]) -> tuple[T, ...]:
        """The inverse: in the order of the function."""
        return self.by_name[name].reversed().arranged(dims) if name in self.by_name else tuple(dims)

    def axis(self, name: str, axis: int) -> int:
        """The axis of the model for an axis of the function."""
        layout = self.by_name.get(name)
        return layout.perm.index(axis) if layout is not None and axis < len(layout.perm) else axis

    # -- arrays --------------------------------------------------------------------------------

    def given(self, name: str, array: Array) -> Array:
        """An array of the function as the model has it."""
        return (
            np.ascontiguousarray(array.transpose(self.arranged(name, range(array.ndim))))
            if name in self.by_name
            else array
        )

    def returned(self, name: str, array: Array) -> Array:
        """An array of the model as the function has it."""
        return array.transpose(self.restored(name, range(array.ndim))) if name in self.by_name else array

    # -- states ---------------------------------------------------------------------------------

    def continued(self, pairs: Sequence[StatePair]) -> Layouts:
        """The layouts of outputs that are states: those of the inputs."""
        return Layouts({pair.output: self.by_name[pair.input] for pair in pairs if pair.input in self.by_name})

    def of_states(self, pairs: Sequence[StatePair]) -> list[StatePair]:
        """The pairs with the axes of the model along which states grow.

        Raises:
          OptionError: a state comes back in another layout than the one that it goes in with.
        """
        for pair in pairs:
            if self.by_name.get(pair.input) != self.by_name.get(pair.output):
                before, after = (
                    f"{n!r} has {self.by_name.get(n, 'the layout of the function')}" for n in (pair.input, pair.output)
                )
                raise OptionError(
                    f"A state has one layout, but its input {before} and its output {after}: give both the same."
                )
        return [
            dataclasses.replace(pair, grows=None if pair.grows is None else self.axis(pair.input, pair.grows))
            for pair in pairs
        ]


NO_LAYOUTS = Layouts()


def _named(key: object, names: Sequence[str]) -> list[str]:
    """The names that a key stands for."""
    if isinstance(key, str):
        return [key] if key in names else fnmatch.filter(names, key)
    return [names[key]] if isinstance(key, int) and not isinstance(key, bool) and 0 <= key < len(names) else []
