"""What a rule states about the integers in a value that it makes, for rules that index with them later."""

from __future__ import annotations

import dataclasses

from jax2onnx_core import Dim, Value

__all__ = [
    "Bounds",
    "Progression",
    "dimension_of",
    "progression_of",
    "range_of",
    "set_dimension",
    "set_progression",
    "set_range",
]

#: The smallest and the largest value.
Bounds = tuple[Dim, Dim]

# Keys of `Value.meta`.
_DIMENSION = "jax2onnx_lax.dimension"
_RANGE = "jax2onnx_lax.range"
_PROGRESSION = "jax2onnx_lax.progression"


@dataclasses.dataclass(frozen=True)
class Progression:
    """The vector start, start + step, …, start + (count - 1) · step."""

    start: Dim
    step: int
    count: Dim


def set_dimension(value: Value, dim: Dim) -> None:
    """State that the one element of `value` is the dimension `dim`."""
    value.meta[_DIMENSION] = dim


def dimension_of(value: Value) -> Dim | None:
    """What `set_dimension` stated about `value`."""
    dim: Dim | None = value.meta.get(_DIMENSION)
    return dim


def set_range(value: Value, low: Dim, high: Dim) -> None:
    """State that every element of `value` is between `low` and `high`, ends included."""
    value.meta[_RANGE] = (low, high)


def range_of(value: Value) -> Bounds | None:
    """What `set_range` stated about `value`."""
    bounds: Bounds | None = value.meta.get(_RANGE)
    return bounds


def set_progression(value: Value, progression: Progression) -> None:
    """State that `value` is this vector."""
    value.meta[_PROGRESSION] = progression


def progression_of(value: Value) -> Progression | None:
    """What `set_progression` stated about `value`."""
    progression: Progression | None = value.meta.get(_PROGRESSION)
    return progression
