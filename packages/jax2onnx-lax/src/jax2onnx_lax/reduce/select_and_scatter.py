"""`select_and_scatter*` and `select_and_gather_add`: the gradient and the derivative of max pooling.

The element that each window selects is found on all windows side by side, taken by one gather per axis, so
the size of the graph does not depend on that of the windows. Where a few elements make a window, and no element is in two windows, the
elements are compared one after the other, and the gradient is laid out in their places instead of scattered.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Protocol, Unpack

import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax2onnx_core import Dim, Jaxpr, Rules
from jax2onnx_core.jaxprs import Dims, definitely_le, is_static, open_jaxpr
from jax2onnx_graph.build.builder import Array as NumpyArray

from jax2onnx_lax.monoids import MONOIDS, highest, lowest, recognise
from jax2onnx_lax.padding import at_least_one
from jax2onnx_lax.reduce._windows import WindowParams, Windows

__all__ = ["rules"]

rules = Rules()

# Indices are constants where all sizes are numbers, else JAX computes them.
Indices = NumpyArray | Array


class _Primitive(Protocol):
    @property
    def name(self) -> str: ...


@dataclasses.dataclass(frozen=True)
class _AxisWindows:
    """The positions in the operand of the elements of all windows along one axis.

    Attributes:
      axis: the axis.
      length: its size.
      shape: the windows.
      index: [windows, elements], clipped to the axis.
      valid: [windows, elements]: whether there is an element of the operand, not padding.
    """

    axis: int
    length: Dim
    shape: Windows
    index: Indices
    valid: Indices

    @classmethod
    def for_axis(cls, shape: Windows, axis: int, length: Dim, count: Dim) -> _AxisWindows:
        dims = (count, shape.window_dimensions[axis])
        place = _place(shape, axis, _iota(dims, 0), _iota(dims, 1))
        dilation = shape.base_dilation[axis]
        index = place // dilation
        valid = (place >= 0) & (index < _scalar(length)) & (place == index * dilation)
        return cls(axis, length, shape, _clip(index, length), valid)

    def index_of(self, window: Indices, element: Array) -> Array:
        """The index along the axis of the given elements of the given windows, clipped to the axis."""
        place, dilation = _place(self.shape, self.axis, window, element), self.shape.base_dilation[self.axis]
        return jnp.asarray(_clip(place if dilation == 1 else place // dilation, self.length))


def _iota(dims: Sequence[Dim], axis: int) -> Indices:
    """Indices along `axis`, of size 1 along the others; a constant where the axis is static."""
    size = dims[axis]
    if is_static(size):
        return np.arange(size, dtype=np.int32).reshape([size if i == axis else 1 for i in range(len(dims))])
    return lax.broadcasted_iota(np.int32, [d if i == axis else 1 for i, d in enumerate(dims)], axis)


def _scalar(dim: Dim) -> np.int32 | Array:
    """A dimension as an int32."""
    return np.int32(dim) if is_static(dim) else jnp.asarray(dim, np.int32)


def _place(shape: Windows, axis: int, window: Indices, element: Indices) -> Indices:
    """The positions of the elements of windows along an axis of the dilated operand; negative in the padding before it."""
    padded = window * shape.window_strides[axis] + element * shape.window_dilation[axis]
    return padded - _scalar(shape.padding[axis][0])


def _clip(index: Indices, length: Dim) -> Indices:
    clip = np.clip if isinstance(index, np.ndarray) and is_static(length) else jnp.clip
    return clip(index, 0, _scalar(length) - 1)


@dataclasses.dataclass(frozen=True)
class _Patches:
    """The windows over an operand of some shape, and operations on all of them at once.

    Attributes:
      axes: the windows along each axis that has any.
      sizes: the number of elements of a window along each of them.
      counts: the number of windows along every axis of the operand.
    """

    axes: Sequence[_AxisWindows]
    sizes: Dims
    counts: Dims

    @classmethod
    def from_windows(cls, shape: Windows, dims: Dims) -> _Patches:
        counts = shape.counts(dims)
        axes = [_AxisWindows.for_axis(shape, axis, dims[axis], counts[axis]) for axis in shape.active]
        return cls(axes, tuple(shape.window_dimensions[w.axis] for w in axes), counts)

    def of_array(self, x: Array) -> Array:
        """[windows…, elements]: the elements that the windows cover; anything where they cover nothing."""
        for along in reversed(self.axes):
            x = jnp.take(at_least_one(x, along.axis), along.index, axis=along.axis, mode="clip")
        return self._elements_last(x)

    def _elements_last(self, x: Array) -> Array:
        elements = [along.axis + i + 1 for i, along in enumerate(self.axes)]
        rest = [axis for axis in range(x.ndim) if axis not in elements]
        return lax.reshape(lax.transpose(x, [*rest, *elements]), (*self.counts, math.prod(self.sizes)))

    def _on_windows(self, i: int, array: Indices) -> Indices:
        """A [windows, elements] array of the i-th windowed axis on [windows…, elements of every such axis…]."""
        rank = len(self.counts)
        dims = [1] * (rank + len(self.sizes))
        dims[self.axes[i].axis], dims[rank + i] = array.shape
        return array.reshape(dims)

    def valid(self) -> Indices:
        """[windows…, elements], broadcastable: whether there is an element of the operand."""
        every = _conjunction([self._on_windows(i, along.valid) for i, along in enumerate(self.axes)])
        return every.reshape((*every.shape[: len(self.counts)], math.prod(self.sizes)))

    def places(self, selected: Array, x: Array) -> tuple[Array, tuple[Indices, ...]]:
        """The index, an array for each axis, of each window's selected element in `x`, which is like the operand.

        Indices into the flat array are faster; JAX makes that only where it sees that its size is not negative.

        Returns:
          `x`, flat if it can be, and the index.
        """
        by_axis = {along.axis: i for i, along in enumerate(self.axes)}
        places = [
            self._coordinate(by_axis[axis], selected) if axis in by_axis else _iota(self.counts, axis)
            for axis in range(x.ndim)
        ]
        if not definitely_le(0, math.prod(x.shape)):
            return x, tuple(places)
        index: Indices | np.int32 = np.int32(0)
        for place, length in zip(places, x.shape, strict=True):
            index = index * _scalar(length) + place
        return x.reshape(-1), (jnp.broadcast_to(index, self.counts),)

    def _coordinate(self, i: int, selected: Array) -> Array:
        """The index in the operand of the selected element of each window along the i-th windowed axis."""
        inner = math.prod(self.sizes[i + 1 :])
        element = selected if not self.sizes[i + 1 :] else lax.div(selected, lax.full_like(selected, _scalar(inner)))
        if i:
            element = lax.rem(element, lax.full_like(element, _scalar(self.sizes[i])))
        along = self.axes[i]
        return along.index_of(_iota(self.counts, along.axis), element)


def _conjunction(arrays: Sequence[Indices]) -> Indices:
    """The conjunction of broadcastable arrays."""
    result = arrays[0]
    for array in arrays[1:]:
        result = result & array
    return result


@dataclasses.dataclass(frozen=True)
class _Selection:
    """The element that each window selects.

    Attributes:
      element: its number within the window.
      is_real: whether it is an element of the operand, not padding.
      is_better: whether it is better than padding.
    """

    element: Array
    is_real: Array | np.bool_
    is_better: Array


def _select(patches: Array, valid: Indices, greatest: bool) -> _Selection:
    """The element of each window that comparing by `ge` (or `le`) keeps: the first extremum after the last NaN, else
    that NaN.

    XLA replaces the element selected so far unless the comparison holds, which it never does with NaN. Padding takes
    part as -inf (or inf).
    """
    worst = jnp.asarray((lowest if greatest else highest)(patches.dtype), patches.dtype)
    everywhere = isinstance(valid, np.ndarray) and bool(valid.all())
    patches = patches if everywhere else jnp.where(valid, patches, worst)
    order = _iota(patches.shape, patches.ndim - 1)
    last_nan = jnp.asarray(-1, np.int32)
    if jnp.issubdtype(patches.dtype, jnp.floating):
        last_nan = jnp.where(patches != patches, order, -1).max(axis=-1)
    candidates = order > last_nan[..., None]
    kept = jnp.where(candidates, patches, worst)
    best = (lax.reduce_max if greatest else lax.reduce_min)(kept, (kept.ndim - 1,))
    count = patches.shape[-1]
    first = jnp.where(candidates & (kept == best[..., None]), order, count).min(axis=-1)
    selected = jnp.where(first == count, last_nan, first)
    is_real = np.bool_(True) if everywhere else (valid & (order == selected[..., None])).any(axis=-1)
    return _Selection(selected, is_real, (best != worst) | (last_nan >= 0))


# Windows with at most so many elements are taken apart.
_FEW = 9


def _is_tiling(shape: Windows, dims: Dims) -> bool:
    """Whether few elements make a window, each element is in at most one, and all windows are of elements."""
    active = shape.active
    sizes = [shape.window_dimensions[axis] for axis in active]
    if not all(map(is_static, (*sizes, *(dims[axis] for axis in active)))) or math.prod(sizes) > _FEW:
        return False
    apart = all(shape.window_strides[axis] == shape.window_dimensions[axis] for axis in active)
    return apart and not shape.has_gaps and all(shape.window_dilation[axis] == 1 for axis in active)


def _scatter_to_tiles(source: Array, operand: Array, shape: Windows, greatest: bool) -> Array:
    """`_scatter_add` to zeros for windows that tile the operand."""
    sizes = [size for axis in shape.active if is_static(size := shape.window_dimensions[axis])]
    elements = _elements(operand, shape, sizes)
    best, selected = elements[0], jnp.zeros(source.shape, np.int32)
    for number, element in enumerate(elements[1:], 1):
        keeps = lax.ge(best, element) if greatest else lax.le(best, element)
        selected = jnp.where(keeps, selected, number)
        if number < len(elements) - 1:
            best = jnp.where(keeps, best, element)
    zero = jnp.zeros((), source.dtype)
    parts = [jnp.where(selected == number, source, zero) for number in range(len(elements))]
    for axis, size in reversed([*zip(shape.active, sizes, strict=True)]):
        stacked = [jnp.stack(parts[i : i + size], axis + 1) for i in range(0, len(parts), size)]
        parts = [lax.collapse(part, axis, axis + 2) for part in stacked]
    rest = [(0, n - covered, 0) for n, covered in zip(operand.shape, parts[0].shape, strict=True)]
    return lax.pad(parts[0], zero, rest) if any(map(any, rest)) else parts[0]


def _elements(operand: Array, shape: Windows, sizes: Sequence[int]) -> list[Array]:
    """For each place in a window of these sizes, row by row, an array of the elements that the windows have there."""
    parts = [operand]
    for axis, size in zip(shape.active, sizes, strict=True):
        count = operand.shape[axis] // size
        parts = [
            lax.slice_in_dim(part, place, place + (count - 1) * size + 1, size, axis)
            for part in parts
            for place in range(size)
        ]
    return parts


def _scatter_add(source: Array, operand: Array, initial: float | Array, shape: Windows, greatest: bool) -> Array:
    """An array like `operand` of `initial`, to which each window adds its `source` at the element that it selects."""
    dims = operand.shape
    if not shape.active:
        return source + initial
    if _is_tiling(shape, dims) and not isinstance(initial, Array) and source.dtype == operand.dtype:
        return _scatter_to_tiles(source, operand, shape, greatest)
    patches = _Patches.from_windows(shape, dims)
    selection = _select(patches.of_array(operand), patches.valid(), greatest)
    start, index = patches.places(selection.element, jnp.broadcast_to(jnp.asarray(initial, source.dtype), dims))
    if not isinstance(selection.is_real, np.bool_):
        source = jnp.where(selection.is_real, source, jnp.zeros((), source.dtype))
    return lax.reshape(start.at[index].add(source, mode="promise_in_bounds"), dims)


def _selects_greatest(comparison: _Primitive) -> bool:
    """Whether a comparison selects the greatest (`ge`) or the least (`le`) element; NotImplementedError for others."""
    if comparison.name not in ("ge", "le"):
        raise NotImplementedError(f"selecting by {comparison.name}: only ge and le make a pooling")
    return comparison.name == "ge"


def _is_empty(dims: Sequence[Dim]) -> bool:
    return any(is_static(d) and d == 0 for d in dims)


@rules.decompose("select_and_scatter_add")
def select_and_scatter_add(
    source: Array, operand: Array, *, select_prim: _Primitive, **params: Unpack[WindowParams]
) -> Array:
    """The gradient of max pooling (`ge`) or min pooling (`le`)."""
    if _is_empty(source.shape) or _is_empty(operand.shape):
        return jnp.zeros(operand.shape, operand.dtype)
    shape, greatest = Windows.from_params(**params), _selects_greatest(select_prim)
    if operand.dtype == np.bool_:
        return _scatter_add(source.astype(np.int32), operand.astype(np.int32), 0, shape, greatest) != 0
    return _scatter_add(source, operand, 0, shape, greatest)


@rules.decompose("select_and_scatter")
def select_and_scatter(
    operand: Array, source: Array, initial: Array, *, select_jaxpr: Jaxpr, select_consts: Sequence[object],
    scatter_jaxpr: Jaxpr, scatter_consts: Sequence[object], **params: Unpack[WindowParams],
) -> Array:  # fmt: skip
    """The general form, of which only pooling's own computations are possible; NotImplementedError for others."""
    comparisons = open_jaxpr(select_jaxpr, select_consts)[0].eqns
    if recognise(scatter_jaxpr) is not MONOIDS["add"] or len(comparisons) != 1:
        raise NotImplementedError("select_and_scatter that does not add what one comparison selects")
    return _scatter_add(
        source, operand, initial, Windows.from_params(**params), _selects_greatest(comparisons[0].primitive)
    )


@rules.decompose("select_and_gather_add")
def select_and_gather_add(
    tangents: Array, operand: Array, *, select_prim: _Primitive, **params: Unpack[WindowParams]
) -> Array:
    """The derivative of max pooling (`ge`) or min pooling (`le`): the tangent of the selected element, 0 for padding."""
    shape = Windows.from_params(**params)
    counts = shape.counts(operand.shape)
    if _is_empty(tangents.shape) or _is_empty(counts):
        return jnp.zeros(counts, tangents.dtype)
    if not shape.active:
        return tangents
    patches = _Patches.from_windows(shape, operand.shape)
    selection = _select(patches.of_array(operand), patches.valid(), _selects_greatest(select_prim))
    source, index = patches.places(selection.element, tangents)
    gathered = functools.reduce(at_least_one, range(source.ndim), source).at[index].get(mode="clip")
    return jnp.where(selection.is_real & selection.is_better, gathered, jnp.zeros((), tangents.dtype))
