"""Annotations of integer values, by which the rule that makes a value tells rules that index with it its bounds or elements."""

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
    """The dimension that `set_dimension` stated `value` to be; None if it stated none."""
    dim: Dim | None = value.meta.get(_DIMENSION)
    return dim


def set_range(value: Value, low: Dim, high: Dim) -> None:
    """State between which numbers all elements of an array are.

    Args:
      value: an array of integers.
      low: the smallest possible element.
      high: the largest possible element, itself included.
    """
    value.meta[_RANGE] = (low, high)


def range_of(value: Value) -> Bounds | None:
    """The bounds that `set_range` stated for `value`; None if it stated none."""
    bounds: Bounds | None = value.meta.get(_RANGE)
    return bounds


def set_progression(value: Value, progression: Progression) -> None:
    """State that `value` is the vector `progression`."""
    value.meta[_PROGRESSION] = progression


def progression_of(value: Value) -> Progression | None:
    """The vector that `set_progression` stated `value` to be; None if it stated none."""
    progression: Progression | None = value.meta.get(_PROGRESSION)
    return progression
