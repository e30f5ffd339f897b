"""`ShardedArray`: a value that is sharded over the devices of a mesh, as one array, and its changes of layout."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import TypeAlias, cast

import jax
import numpy as np
from jax import lax
from jax2onnx_core import Dim
from jax2onnx_core.jaxprs import bounds, is_static
from jax2onnx_graph.arrays import Array

from jax2onnx_lax.integers._domain import is_one

__all__ = ["STACKED", "Devices", "Layout", "ShardedArray", "broadcast", "constant", "expanded", "whole"]

#: Marks a mesh axis that is a leading axis of an array.
STACKED = -1

Shape: TypeAlias = tuple[Dim, ...]


@dataclasses.dataclass(frozen=True)
class Layout:
    """The sharding of an array over the axes of a mesh; along axes that are not part of it, the value is the same.

    Attributes:
      stacked: the mesh axes that are leading axes of the array, in order.
      tiled: for each dimension of the value, the mesh axes along which it is divided, that of the largest parts first.
    """

    stacked: tuple[str, ...]
    tiled: tuple[tuple[str, ...], ...]

    @property
    def axes(self) -> frozenset[str]:
        """The mesh axes along which the value differs."""
        return frozenset(self.stacked).union(*self.tiled)

    def place(self, axis: str) -> int | None:
        """The dimension that is divided along a mesh axis; `STACKED`, or None where the axis is nowhere."""
        if axis in self.stacked:
            return STACKED
        return next((d for d, axes in enumerate(self.tiled) if axis in axes), None)

    def stacking(self, axes: frozenset[str]) -> Layout:
        """The layout with these axes of it leading, after those that lead already; dimensions that they divide are not divided."""
        moved = [a for names in self.tiled if axes.intersection(names) for a in names]
        return Layout((*self.stacked, *moved), tuple(() if axes.intersection(names) else names for names in self.tiled))


@dataclasses.dataclass(frozen=True, eq=False)
class ShardedArray:
    """A value that differs by device, as one array of all devices.

    Attributes:
      array: the values of all devices, [*stacked, *dimensions]; a dimension along which all elements are equal may be of size 1.
      shape: the shape on one device.
      layout: the axes of the mesh in the array.
    """

    array: jax.Array
    shape: Shape
    layout: Layout

    @property
    def axes(self) -> frozenset[str]:
        """The mesh axes along which the value differs."""
        return self.layout.axes

    @property
    def rank(self) -> int:
        """The number of dimensions on one device."""
        return len(self.shape)

    @property
    def dims(self) -> Shape:
        """The sizes of the array without its leading axes."""
        return tuple(self.array.shape[len(self.layout.stacked) :])

    def is_uniform(self, dim: int) -> bool:
        """Whether a dimension of the array is of size 1 in place of many equal elements."""
        return is_one(self.dims[dim]) and not is_one(self.shape[dim])

    @property
    def sharded(self) -> ShardedArray:
        """The value itself."""
        return self


def constant(array: Array) -> jax.Array:
    """A NumPy array as an array of a body; values computed from such arrays alone are known while the body is traced."""
    return cast("jax.Array", array)


def whole(array: jax.Array, shape: Sequence[Dim] | None = None) -> ShardedArray:
    """A value that is the same on all devices."""
    dims = tuple(array.shape if shape is None else shape)
    return ShardedArray(array, dims, Layout((), ((),) * len(dims)))


class Devices:
    """The devices that run a body: the axes of their mesh, with their sizes.

    Attributes:
      sizes: mesh axis → the number of devices along it.
      moved: whether an array was laid out anew.
    """

    def __init__(self, sizes: Mapping[str, int]) -> None:
        self.sizes = sizes
        self.moved = False

    def count(self, axes: Sequence[str]) -> int:
        """The number of devices along several axes."""
        return math.prod(self.sizes[a] for a in axes)

    def sizes_of(self, shape: Shape, layout: Layout) -> Shape:
        """The sizes of the array of all devices for a shape on one of them."""
        tiled = (n * self.count(axes) for n, axes in zip(shape, layout.tiled, strict=True))
        return (*(self.sizes[a] for a in layout.stacked), *tiled)

    def fits(self, x: ShardedArray) -> bool:
        """Whether an array may have the layout that it is said to have, for some sizes of the symbols."""
        if len(x.layout.tiled) != x.rank or x.array.ndim != len(x.layout.stacked) + x.rank:
            return False
        may_be_one = [*(False for _ in x.layout.stacked), *(not axes for axes in x.layout.tiled)]
        sizes = zip(x.array.shape, self.sizes_of(x.shape, x.layout), may_be_one, strict=True)
        return all(_may_be_equal(size, wanted) or (one and is_one(size)) for size, wanted, one in sizes)

    def joined(self, layouts: Sequence[Layout]) -> Layout:
        """A layout for values of one shape that are computed with each other: rather divided dimensions than leading axes."""
        found = {a: {layout.place(a) for layout in layouts} - {None} for a in self.sizes}
        divided = {a: places - {STACKED} for a, places in found.items()}
        stacked = tuple(a for a, places in found.items() if places and len(divided[a]) != 1)
        rank = len(layouts[0].tiled)
        tiled = []
        for d in range(rank):
            longest = sorted((layout.tiled[d] for layout in layouts), key=len, reverse=True)
            names = dict.fromkeys(a for names in longest for a in names)
            tiled.append(tuple(a for a in names if divided[a] == {d}))
        return Layout(stacked, tuple(tiled))

    def filled(self, x: ShardedArray, dims: Sequence[int] | None = None) -> ShardedArray:
        """The value with all elements of its dimensions, or of some of them, in the array."""
        count = len(x.layout.stacked)
        wanted = [d for d in (range(x.rank) if dims is None else dims) if x.is_uniform(d)]
        shape = [x.shape[i - count] if i - count in wanted else n for i, n in enumerate(x.array.shape)]
        return dataclasses.replace(x, array=broadcast(x.array, shape))

    def relaid(self, x: ShardedArray, layout: Layout) -> ShardedArray:
        """The value in a layout that has all of its axes, with all elements of the dimensions that are divided."""
        array, count = self.broadcastable(x, layout), len(layout.stacked)
        divided = self.sizes_of(x.shape, layout)
        sizes = [n if i < count or layout.tiled[i - count] else array.shape[i] for i, n in enumerate(divided)]
        return ShardedArray(broadcast(array, sizes), x.shape, layout)

    def broadcastable(self, x: ShardedArray, layout: Layout) -> jax.Array:
        """An array in a layout that has all axes of the value, of size 1 along axes and dimensions where it does not differ."""
        x = self._taken_out(x, layout)
        for d, axes in enumerate(layout.tiled):
            needed = not x.is_uniform(d) or not x.axes.isdisjoint(axes)
            if axes and not x.layout.tiled[d] and needed:
                x = self._tiled(x, d, axes)
        return _led(x, layout.stacked)

    def stacked(self, x: ShardedArray, axes: frozenset[str]) -> ShardedArray:
        """The value with those of the axes leading along which it differs."""
        return self._taken_out(x, x.layout.stacking(axes))

    def _taken_out(self, x: ShardedArray, layout: Layout) -> ShardedArray:
        """The value with the axes leading that divide its dimensions otherwise than in a layout."""
        for d, axes in enumerate(x.layout.tiled):
            if axes and axes != layout.tiled[d]:
                x = self._divided(x, d)
        return x

    def _divided(self, x: ShardedArray, dim: int) -> ShardedArray:
        """The value with the axes leading that divide a dimension."""
        self.moved = True
        axes, count = x.layout.tiled[dim], len(x.layout.stacked)
        at = count + dim
        shape = (*x.array.shape[:at], *(self.sizes[a] for a in axes), x.shape[dim], *x.array.shape[at + 1 :])
        array = _reshape(x.array, shape)
        order = [*range(count), *range(at, at + len(axes))]
        array = _transpose(array, [*order, *(i for i in range(array.ndim) if i not in order)])
        tiled = tuple(() if d == dim else names for d, names in enumerate(x.layout.tiled))
        return ShardedArray(array, x.shape, Layout((*x.layout.stacked, *axes), tiled))

    def _tiled(self, x: ShardedArray, dim: int, axes: tuple[str, ...]) -> ShardedArray:
        """The value with a dimension divided along axes that are leading, or nowhere."""
        self.moved = True
        x = self.filled(x, [dim])
        rest = tuple(a for a in x.layout.stacked if a not in axes)
        array = _led(x, (*rest, *axes))
        sizes = [self.sizes[a] for a in axes]
        array = broadcast(array, [*array.shape[: len(rest)], *sizes, *x.dims])
        first = len(rest) + len(axes)
        order = [*range(len(rest)), *range(first, first + dim), *range(len(rest), first)]
        array = _transpose(array, [*order, *range(first + dim, array.ndim)])
        size = x.shape[dim] * self.count(axes)
        at = len(rest) + dim
        array = _reshape(array, (*array.shape[:at], size, *array.shape[at + len(axes) + 1 :]))
        tiled = tuple(axes if d == dim else names for d, names in enumerate(x.layout.tiled))
        return ShardedArray(array, x.shape, Layout(rest, tiled))


def _led(x: ShardedArray, axes: Sequence[str]) -> jax.Array:
    """The array with these leading axes in order, of size 1 where the value has none."""
    present = [a for a in axes if a in x.layout.stacked]
    count = len(present)
    array = _transpose(x.array, [*map(x.layout.stacked.index, present), *range(count, x.array.ndim)])
    new = [i for i, a in enumerate(axes) if a not in present]
    return expanded(array, new)


def _may_be_equal(a: Dim, b: Dim) -> bool:
    least, largest = bounds(a - b)
    return least <= 0 <= largest


def expanded(x: jax.Array, axes: Sequence[int]) -> jax.Array:
    """The array with axes of size 1 at these places; a NumPy array stays one."""
    if isinstance(x, np.ndarray):
        return np.expand_dims(x, tuple(axes))
    return lax.expand_dims(x, axes) if axes else x


def broadcast(x: jax.Array, shape: Sequence[Dim]) -> jax.Array:
    """The array, whose axes of size 1 are as large as those of `shape`; a NumPy array stays one."""
    if tuple(shape) == tuple(x.shape):
        return x
    if isinstance(x, np.ndarray) and all(map(is_static, shape)):
        return np.broadcast_to(x, tuple(shape))
    return lax.broadcast_in_dim(x, tuple(shape), tuple(range(x.ndim)))


def _reshape(x: jax.Array, shape: Sequence[Dim]) -> jax.Array:
    return x if tuple(shape) == tuple(x.shape) else lax.reshape(x, tuple(shape))


def _transpose(x: jax.Array, order: Sequence[int]) -> jax.Array:
    return x if list(order) == list(range(x.ndim)) else lax.transpose(x, tuple(order))
