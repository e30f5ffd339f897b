"""Arrays whose axes are named, so that the rules need not count axes while they move.

`("batch", i)` is axis i of an index array [*batch, k], `("axis", d)` is axis d of the operand that is indexed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Sequence

from jax2onnx_core import Context, Value

__all__ = ["AxisName", "NamedArray", "are_adjacent", "axes_of", "rearrange"]

AxisName = tuple[str, int]


@dataclasses.dataclass(frozen=True)
class NamedArray:
    """An array with the names of its axes."""

    value: Value
    axis_names: tuple[AxisName, ...]

    def axis(self, axis_name: AxisName) -> int:
        """The axis of `value` that has this name, by its number."""
        return self.axis_names.index(axis_name)

    def in_order(self, ctx: Context, wanted: Sequence[AxisName]) -> Value:
        """The array with its axes in the order `wanted`."""
        return rearrange(ctx, self.value, self.axis_names, wanted)

    def without(self, ctx: Context, axis_names: Sequence[AxisName]) -> NamedArray:
        """The array without these axes, each of size 1."""
        value = ctx.squeeze(self.value, [self.axis(axis_name) for axis_name in axis_names])
        return NamedArray(value, tuple(axis_name for axis_name in self.axis_names if axis_name not in axis_names))


def axes_of(axis_names: Sequence[AxisName]) -> list[int]:
    """The operand axes among the names, in their order."""
    return [axis for kind, axis in axis_names if kind == "axis"]


def rearrange(ctx: Context, x: Value, axis_names: Sequence[AxisName], wanted: Sequence[AxisName]) -> Value:
    """Transpose an array to another order of its names.

    Args:
      ctx: the context of the rule.
      x: the array.
      axis_names: the names of its axes.
      wanted: the same names in the order of the result.
    """
    order = list(axis_names)
    return ctx.transpose(x, [order.index(axis_name) for axis_name in wanted])


def are_adjacent(some: Sequence[Hashable], items: Sequence[Hashable]) -> bool:
    """Whether `some` of the `items` are next to each other there, in any order."""
    places = sorted(list(items).index(item) for item in some)
    return places == list(range(places[0], places[0] + len(places)))
