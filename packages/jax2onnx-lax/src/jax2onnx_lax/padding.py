"""The arithmetic of padding that convolutions, poolings and window reductions share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias, cast

from jax import lax
from jax2onnx_core.jaxprs import Dim, is_static

__all__ = [
    "Padding",
    "Pairs",
    "canonical_padding",
    "is_same_padding",
    "same_padding",
    "static_pairs",
    "transposed_padding",
]

#: (low, high) for each spatial axis.
Pairs: TypeAlias = tuple[tuple[int, int], ...]
#: What JAX takes as the padding of a window: "SAME", "VALID" or pairs.
Padding: TypeAlias = str | Pairs


def same_padding(
    space: Sequence[Dim], window: Sequence[Dim], strides: Sequence[int], dilations: Sequence[int] | None = None
) -> tuple[tuple[Dim, Dim], ...]:
    """The (low, high) that JAX's "SAME" stands for on each spatial axis; ONNX calls it SAME_UPPER.

    Numbers where the axis is static or its stride is 1, else expressions of the size of the axis.
    """
    dilations = (1,) * len(window) if dilations is None else dilations
    extents = [(size - 1) * dilation + 1 for size, dilation in zip(window, dilations, strict=True)]
    # JAX computes with symbolic sizes too, which its annotations do not say.
    sizes = cast("Sequence[int]", space), cast("Sequence[int]", extents)
    return tuple(lax.padtype_to_pads(*sizes, strides, "SAME"))


def is_same_padding(
    padding: Sequence[Sequence[Dim]], space: Sequence[Dim], window: Sequence[Dim], strides: Sequence[int]
) -> bool:
    """Whether the pairs are those of "SAME" for every size of the (undilated) axes."""
    return tuple(map(tuple, padding)) == same_padding(space, window, strides)


def static_pairs(padding: Sequence[tuple[Dim, Dim]]) -> Pairs | None:
    """The pairs if all of them are numbers, else None."""
    pairs = tuple((low, high) for low, high in padding if is_static(low) and is_static(high))
    return pairs if len(pairs) == len(padding) else None


def canonical_padding(padding: str | int | Sequence[int | Sequence[int]], rank: int) -> Padding:
    """A framework's padding as a string or as `rank` pairs: one number pads both ends of every axis, a number in a
    sequence both ends of its axis.

    Raises:
      ValueError: the sequence has another length than `rank`.
    """
    if isinstance(padding, str):
        return padding
    sides = (padding,) * rank if isinstance(padding, int) else tuple(padding)
    if len(sides) != rank:
        raise ValueError(f"Padding {padding!r} is for {len(sides)} axes, not {rank}.")
    return tuple((side, side) if isinstance(side, int) else (side[0], side[1]) for side in sides)


def transposed_padding(
    padding: Padding, window: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> Pairs:
    """The pairs by which `jax.lax.conv_transpose` pads its operand after spreading it by the strides."""
    if not isinstance(padding, str):
        return padding
    pairs = []
    for size, stride, dilation in zip(window, strides, dilations, strict=True):
        extent = (size - 1) * dilation + 1
        if padding == "SAME":
            total = extent + stride - 2
            low = extent - 1 if stride > extent - 1 else -(-total // 2)
        else:
            total = extent + stride - 2 + max(extent - stride, 0)
            low = extent - 1
        pairs.append((low, total - low))
    return tuple(pairs)
