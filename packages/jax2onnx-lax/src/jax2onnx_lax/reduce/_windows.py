"""`Windows`: the windows of `lax.reduce_window` and its relatives."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import NotRequired, TypedDict, cast

import jax.numpy as jnp
from jax import Array, lax
from jax2onnx_core.jaxprs import Dim, Dims

from jax2onnx_lax._compat import max_dim
from jax2onnx_lax.monoids import Scalar

__all__ = ["WindowParams", "Windows"]


class WindowParams(TypedDict):
    """The parameters of the primitives over windows, an entry for each axis of the operand."""

    window_dimensions: Sequence[Dim]
    window_strides: Sequence[int]
    padding: Sequence[tuple[Dim, Dim]]
    base_dilation: NotRequired[Sequence[int]]
    window_dilation: NotRequired[Sequence[int]]


@dataclasses.dataclass(frozen=True)
class Windows:
    """The windows over every axis of an operand; fields are those of `lax.reduce_window`."""

    window_dimensions: Dims
    window_strides: tuple[int, ...]
    padding: tuple[tuple[Dim, Dim], ...]
    base_dilation: tuple[int, ...]
    window_dilation: tuple[int, ...]

    @classmethod
    def from_params(
        cls, *, window_dimensions: Sequence[Dim], window_strides: Sequence[int], padding: Sequence[tuple[Dim, Dim]],
        base_dilation: Sequence[int] | None = None, window_dilation: Sequence[int] | None = None, **_: object,
    ) -> Windows:  # fmt: skip
        """Make the windows of the parameters of the primitive `reduce_window` or one of its relatives."""
        ones = (1,) * len(window_dimensions)
        pairs = tuple((low, high) for low, high in padding)
        return cls(tuple(window_dimensions), tuple(window_strides), pairs,
                   tuple(base_dilation or ones), tuple(window_dilation or ones))  # fmt: skip

    @property
    def active(self) -> list[int]:
        """The axes along which there is anything to do."""
        trivial = (1, 1, (0, 0), 1)
        fields = zip(self.window_dimensions, self.window_strides, self.padding, self.base_dilation, strict=True)
        return [axis for axis, entry in enumerate(fields) if entry != trivial]

    @property
    def has_gaps(self) -> bool:
        """Whether windows cover anything but elements: padding, or gaps of a dilated operand."""
        return any(pair != (0, 0) for pair in self.padding) or any(d != 1 for d in self.base_dilation)

    def covers(self, shape: Sequence[Dim]) -> bool:
        """Whether there is one window, over all elements of an operand of this shape."""
        axes = self.active
        plain = all(self.base_dilation[a] == self.window_dilation[a] == 1 and self.padding[a] == (0, 0) for a in axes)
        return bool(axes) and plain and all(self.window_dimensions[a] == shape[a] for a in axes)

    def padded(self, shape: Sequence[Dim]) -> Dims:
        """The shape of an operand with its dilation and padding."""
        return tuple(
            (n if dilation == 1 else max_dim((n - 1) * dilation + 1, 0)) + low + high
            for n, (low, high), dilation in zip(shape, self.padding, self.base_dilation, strict=True)
        )

    def counts(self, shape: Sequence[Dim]) -> Dims:
        """The number of windows along each axis of an operand."""
        sizes = zip(self.padded(shape), self.window_dimensions, self.window_strides, self.window_dilation, strict=True)
        return tuple(max_dim((n - ((size - 1) * d + 1)) // stride + 1, 0) for n, size, stride, d in sizes)

    def pad(self, x: Array, value: Scalar) -> Array:
        """The operand with its dilation and padding filled with `value`."""
        config = [(low, high, d - 1) for (low, high), d in zip(self.padding, self.base_dilation, strict=True)]
        if all(c == (0, 0, 0) for c in config):
            return x
        # JAX pads by symbolic amounts too, which its annotations do not say.
        return lax.pad(x, jnp.asarray(value, x.dtype), cast("list[tuple[int, int, int]]", config))
