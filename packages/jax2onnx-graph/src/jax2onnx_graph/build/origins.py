"""The origins of a value: the results of the exported function that it holds, recorded while passes rewrite the graph.

Passes do not import this module: `GraphEditor` keeps the record for them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from jax2onnx_graph._ir import ir

__all__ = ["HeldResult", "add_origin", "drop_origins", "origins_of", "permute_origins", "share_origins"]

_KEY = "jax2onnx.origins"


@dataclasses.dataclass(frozen=True)
class HeldResult:
    """A result of the exported function that a value holds.

    Attributes:
      result: the result that was given to `add_origin`.
      axes: the axes of the value in the order of the result, if it holds the result in another layout; None if not.
    """

    result: object
    axes: tuple[int, ...] | None = None


def origins_of(value: ir.Value) -> tuple[HeldResult, ...]:
    """The results that the value holds; none where nothing is recorded."""
    found: tuple[HeldResult, ...] = value.meta.get(_KEY, ())
    return found


def add_origin(value: ir.Value, origin: object) -> None:
    """Record that the value holds the result `origin`, besides those that it holds already."""
    value.meta[_KEY] = (*origins_of(value), HeldResult(origin))


def share_origins(old: ir.Value, new: ir.Value, axes: Sequence[int] | None = None) -> None:
    """Record that `new` holds the results of `old`: it equals it, or does so with its axes in the order of `axes`."""
    if held := origins_of(old):
        seen = held if axes is None else tuple(_in_layout(one, axes) for one in held)
        new.meta[_KEY] = (*origins_of(new), *seen)


def permute_origins(value: ir.Value, axes: Sequence[int]) -> None:
    """Record that the value holds its results transposed: with its axes in this order, it is the value before."""
    if held := origins_of(value):
        value.meta[_KEY] = tuple(_in_layout(one, axes) for one in held)


def _in_layout(held: HeldResult, axes: Sequence[int]) -> HeldResult:
    """The same result, of a value whose axes are in this order in the value that held it."""
    return HeldResult(held.result, tuple(axes[axis] for axis in held.axes or range(len(axes))))


def drop_origins(values: Iterable[ir.Value]) -> None:
    """Record that values hold no results any more, because their elements or the order of these changed."""
    for value in values:
        value.meta.pop(_KEY, None)
