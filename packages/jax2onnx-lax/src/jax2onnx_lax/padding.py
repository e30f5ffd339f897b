"""The arithmetic of padding that convolutions, poolings and window reductions share.

ONNX leaves open what an operator gives where a window is larger than the padded axis; JAX gives no windows. If that can
happen, the axis is padded further at its end, so that one window always fits, and what this adds is cut off the result.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TypeAlias, cast

import jax.numpy as jnp
from jax import Array, lax
from jax2onnx_core import Context, Value
from jax2onnx_core.jaxprs import Dim, Dims, definitely_le, is_positive, is_static

__all__ = [
    "FittedPadding",
    "Padding",
    "Pairs",
    "at_least_one",
    "canonical_padding",
    "dilated_size",
    "fit_windows",
    "is_same_padding",
    "same_padding",
    "static_pairs",
    "surely_fits",
    "unchanged_padding",
]

#: (low, high) for each spatial axis.
Pairs: TypeAlias = tuple[tuple[int, int], ...]
#: What JAX takes as the padding of a window: "SAME", "VALID" or pairs.
Padding: TypeAlias = str | Pairs


def same_padding(space: Sequence[Dim], window: Sequence[Dim], strides: Sequence[int]) -> tuple[tuple[Dim, Dim], ...]:
    """The pairs (low, high) that JAX's "SAME" stands for; ONNX calls it SAME_UPPER.

    Args:
      space: the sizes of the spatial axes.
      window: the size of a window along each axis.
      strides: the distance of two windows along each axis.

    Returns:
      A pair for each axis: numbers where the axis is static or its stride is 1, else expressions of its size.
    """
    # JAX computes with symbolic sizes too, which its annotations do not say.
    sizes = cast("Sequence[int]", space), cast("Sequence[int]", window)
    return tuple(lax.padtype_to_pads(*sizes, strides, "SAME"))


def is_same_padding(
    padding: Sequence[Sequence[Dim]], space: Sequence[Dim], window: Sequence[Dim], strides: Sequence[int]
) -> bool:
    """Whether a padding is that of "SAME" for every size of the (undilated) axes.

    Args:
      padding: (low, high) for each axis.
      space: the sizes of the spatial axes.
      window: the size of a window along each axis.
      strides: the distance of two windows along each axis.
    """
    return tuple(map(tuple, padding)) == same_padding(space, window, strides)


def static_pairs(padding: Sequence[tuple[Dim, Dim]]) -> Pairs | None:
    """The pairs if all of them are numbers, else None."""
    pairs = tuple((low, high) for low, high in padding if is_static(low) and is_static(high))
    return pairs if len(pairs) == len(padding) else None


def canonical_padding(padding: str | int | Sequence[int | Sequence[int]], rank: int) -> Padding:
    """A framework's padding as a string or as pairs (low, high).

    Args:
      padding: a mode such as "SAME"; or a number, for both ends of every axis; or a sequence with a number, for both ends, or a
        pair for each axis.
      rank: the number of spatial axes.

    Raises:
      ValueError: the sequence has another length than `rank`.
    """
    if isinstance(padding, str):
        return padding
    sides = (padding,) * rank if isinstance(padding, int) else tuple(padding)
    if len(sides) != rank:
        raise ValueError(f"Padding {padding!r} is for {len(sides)} axes, not {rank}.")
    return tuple((side, side) if isinstance(side, int) else (side[0], side[1]) for side in sides)


# -- windows that may be larger than the axis ---------------------------------------------------


def at_least_one(x: Array, axis: int) -> Array:
    """`x` with one more element at the end of an axis that may have none: JAX takes nothing, not even no times, from such."""
    if is_positive(x.shape[axis]):
        return x
    return lax.pad(x, jnp.zeros((), x.dtype), [(0, int(i == axis), 0) for i in range(x.ndim)])


def dilated_size(window: Sequence[Dim], dilations: Sequence[int]) -> Dims:
    """The number of elements from the first to the last one of a window, along each axis."""
    return tuple((size - 1) * dilation + 1 for size, dilation in zip(window, dilations, strict=True))


def surely_fits(n: Dim, pair: tuple[Dim, Dim], extent: Dim) -> bool:
    """Whether a window is known to fit a padded axis that has at least one element.

    Args:
      n: the size of the axis.
      pair: its padding (low, high).
      extent: the number of elements from the first to the last one of the window.
    """
    return definitely_le(extent, 1 + pair[0] + pair[1]) or definitely_le(extent, n + pair[0] + pair[1])


@dataclasses.dataclass(frozen=True)
class FittedPadding:
    """The padding of axes, grown at the end such that one window fits each axis that has any elements.

    Attributes:
      padding: (low, high) of each axis.
      missing: the number of elements by which `high` was grown, for each axis.
      counts: the number of windows along each grown axis; None where nothing is missing.
    """

    padding: tuple[tuple[Dim, Dim], ...]
    missing: tuple[int, ...]
    counts: Dims | None

    @property
    def pads(self) -> list[int]:
        """The attribute `pads`, where all padding is by numbers."""
        return [amount for side in (0, 1) for pair in self.padding if is_static(amount := pair[side])]

    def dims(self, result: Dims) -> Dims:
        """The dimensions of the operator's result on the grown axes, in ONNX's layout; `result` are those of JAX's result."""
        return result if self.counts is None else (*result[:2], *self.counts)

    def cut(self, ctx: Context, y: Value, result: Dims) -> Value:
        """Cut off the windows that exist only because the axes were grown.

        Args:
          ctx: the context of the rule.
          y: the operator's result, [B, C, *space].
          result: the dimensions of JAX's result in that layout.
        """
        axes = [2 + i for i, more in enumerate(self.missing) if more]
        return ctx.slice(y, [0] * len(axes), [result[axis] for axis in axes], axes, dims=result) if axes else y


def unchanged_padding(padding: Sequence[tuple[Dim, Dim]]) -> FittedPadding:
    """A padding with which a window fits anyway."""
    return FittedPadding(tuple(padding), (0,) * len(padding), None)


def fit_windows(
    ctx: Context, space: Sequence[Dim], padding: Sequence[tuple[Dim, Dim]], extents: Sequence[Dim],
    strides: Sequence[int],
) -> FittedPadding:  # fmt: skip
    """Grow the padding at the end of axes that a window may be larger than.

    Args:
      ctx: the context of the rule. It declines where no number is enough.
      space: the sizes of the axes.
      padding: their padding (low, high).
      extents: the number of elements from the first to the last one of a window, along each axis.
      strides: the distance of two windows along each axis.
    """
    entries = list(zip(space, padding, extents, strides, strict=True))
    missing = tuple(_missing(ctx, n, pair, extent) for n, pair, extent, _ in entries)
    if not any(missing):
        return unchanged_padding(padding)
    grown = tuple((low, high + more) for (low, high), more in zip(padding, missing, strict=True))
    sizes = [n + low + high for n, (low, high) in zip(space, grown, strict=True)]
    counts = [(size - extent) // stride + 1 for size, (*_, extent, stride) in zip(sizes, entries, strict=True)]
    return FittedPadding(grown, missing, tuple(counts))


def _missing(ctx: Context, n: Dim, pair: tuple[Dim, Dim], extent: Dim) -> int:
    low, high = pair
    if surely_fits(n, pair, extent):
        return 0
    if not (is_static(extent) and is_static(low) and is_static(high) and min(low, high) >= 0):
        ctx.decline("a window may be larger than its axis, by an unknown number of elements")
    return extent - 1 - low - high
