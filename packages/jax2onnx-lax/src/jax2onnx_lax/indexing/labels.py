"""Arrays whose axes are named, so that the rules need not count axes while they move.

`("batch", i)` is axis i of an index array [*batch, k], `("axis", d)` is axis d of the operand that is indexed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Sequence

from jax2onnx_core import Context, Value

__all__ = ["Label", "Labelled", "are_adjacent", "axes_of", "rearrange"]

Label = tuple[str, int]


@dataclasses.dataclass(frozen=True)
class Labelled:
    """An array with the labels of its axes."""

    value: Value
    labels: tuple[Label, ...]

    def place(self, label: Label) -> int:
        """The axis of `value` that has this label."""
        return self.labels.index(label)

    def in_order(self, ctx: Context, wanted: Sequence[Label]) -> Value:
        """The array with its axes in the order `wanted`."""
        return rearrange(ctx, self.value, self.labels, wanted)

    def without(self, ctx: Context, labels: Sequence[Label]) -> Labelled:
        """The array without these axes, each of size 1."""
        value = ctx.squeeze(self.value, [self.place(label) for label in labels])
        return Labelled(value, tuple(label for label in self.labels if label not in labels))


def axes_of(labels: Sequence[Label]) -> list[int]:
    """The operand axes among the labels, in their order."""
    return [axis for kind, axis in labels if kind == "axis"]


def rearrange(ctx: Context, x: Value, labels: Sequence[Label], wanted: Sequence[Label]) -> Value:
    """Transpose an array to another order of its labels.

    Args:
      ctx: the context of the rule.
      x: the array.
      labels: the labels of its axes.
      wanted: the same labels in the order of the result.
    """
    order = list(labels)
    return ctx.transpose(x, [order.index(label) for label in wanted])


def are_adjacent(some: Sequence[Hashable], items: Sequence[Hashable]) -> bool:
    """Whether `some` of the `items` are next to each other there, in any order."""
    places = sorted(list(items).index(item) for item in some)
    return places == list(range(places[0], places[0] + len(places)))
