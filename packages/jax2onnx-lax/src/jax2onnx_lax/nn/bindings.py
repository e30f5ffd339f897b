"""Helpers of composites that bind the classes of a framework to layer operations: axes, strides and dilations."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["axes_from_end", "axis_from_end", "per_axis"]


def axis_from_end(axis: object, rank: int) -> int | None:
    """`axis` of an array of this rank, counted from the end, so that it stays right under a further leading axis.

    None if it is no axis of the array.
    """
    if not isinstance(axis, int) or isinstance(axis, bool) or not -rank <= axis < rank:
        return None
    return axis if axis < 0 else axis - rank


def axes_from_end(axes: object, rank: int) -> tuple[int, ...] | None:
    """One axis or several axes (None for all) of an array of this rank, counted from the end and sorted.

    None if one is no axis of the array.
    """
    if axes is None:
        return tuple(range(-rank, 0))
    found = [axis_from_end(axis, rank) for axis in (axes if isinstance(axes, Sequence) else [axes])]
    return tuple(sorted(axis for axis in found if axis is not None)) if None not in found else None


def per_axis(value: int | Sequence[int] | None, rank: int) -> tuple[int, ...]:
    """A stride or dilation for each of `rank` axes, where one number stands for all axes, and None for 1."""
    return (value or 1,) * rank if value is None or isinstance(value, int) else tuple(value)
