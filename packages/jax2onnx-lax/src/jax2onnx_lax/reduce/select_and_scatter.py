"""`select_and_scatter*` and `select_and_gather_add`: the gradient and the derivative of max pooling.

The element that each window selects is found on all windows side by side, taken by one gather per axis, so
the size of the graph does not depend on that of the windows.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax2onnx_core import Rules

from jax2onnx_lax._compat import open_jaxpr
from jax2onnx_lax.reduce.monoids import MONOIDS, highest, lowest, recognise
from jax2onnx_lax.reduce.windows import Windows

__all__ = ["rules"]

rules = Rules()

Array = Any  # a JAX array, traced or not


@dataclasses.dataclass(frozen=True)
class _Places:
    """Where the elements of the windows along one axis are in the operand: [windows, elements]."""

    axis: int
    index: Array
    valid: Array


def _iota(dims: tuple[Any, ...], axis: int) -> Any:
    """Indices along `axis`, of size 1 along the others; a constant where the axis is static."""
    wide = tuple(d if i == axis else 1 for i, d in enumerate(dims))
    if isinstance(dims[axis], int):
        return np.arange(dims[axis], dtype=np.int32).reshape(wide)
    return lax.broadcasted_iota(np.int32, wide, axis)


def _scalar(dim: Any) -> Any:
    """A dimension as an int32."""
    return np.int32(dim) if isinstance(dim, int) else jnp.asarray(dim, np.int32)


def _full(like: Array, sizes: tuple[int, ...]) -> Array:
    """The product of sizes, as an array of the shape of `like`."""
    return lax.full_like(like, math.prod(sizes))


def _places(shape: Windows, axis: int, length: Any, count: Any) -> _Places:
    dims = (count, shape.window_dimensions[axis])
    padded = _iota(dims, 0) * shape.window_strides[axis] + _iota(dims, 1) * shape.window_dilation[axis]
    place = padded - _scalar(shape.padding[axis][0])
    dilation = shape.base_dilation[axis]
    index = place // dilation
    valid = (place >= 0) & (index < _scalar(length)) & (place == index * dilation)
    clip = np.clip if isinstance(index, np.ndarray) and isinstance(length, int) else jnp.clip
    return _Places(axis, clip(index, 0, _scalar(length) - 1), valid)


@dataclasses.dataclass(frozen=True)
class _Patches:
    """The windows over an operand of some shape, and what to do with all of them at once."""

    places: list[_Places]
    sizes: tuple[int, ...]
    counts: tuple[Any, ...]

    @classmethod
    def of(cls, shape: Windows, dims: tuple[Any, ...]) -> _Patches:
        counts = shape.counts(dims)
        places = [_places(shape, axis, dims[axis], counts[axis]) for axis in shape.active]
        return cls(places, tuple(shape.window_dimensions[p.axis] for p in places), counts)

    def of_array(self, x: Array) -> Array:
        """[windows…, elements]: what the windows cover; anything where they cover nothing."""
        for place in reversed(self.places):
            x = jnp.take(x, place.index, axis=place.axis, mode="clip")
        return self._elements_last(x)

    def _elements_last(self, x: Array) -> Array:
        elements = [place.axis + i + 1 for i, place in enumerate(self.places)]
        rest = [axis for axis in range(x.ndim) if axis not in elements]
        return lax.reshape(lax.transpose(x, [*rest, *elements]), (*self.counts, math.prod(self.sizes)))

    def _on_windows(self, i: int, array: Array) -> Array:
        """A [windows, elements] array of the i-th windowed axis on [windows…, elements of every such axis…]."""
        rank = len(self.counts)
        dims: list[Any] = [1] * (rank + len(self.sizes))
        dims[self.places[i].axis], dims[rank + i] = array.shape
        return array.reshape(dims)

    def valid(self) -> Array:
        """[windows…, elements], broadcastable: whether there is an element of the operand."""
        every = _conjunction([self._on_windows(i, place.valid) for i, place in enumerate(self.places)])
        return every.reshape((*every.shape[: len(self.counts)], math.prod(self.sizes)))

    def linear(self, selected: Array, dims: tuple[Any, ...]) -> Array:
        """The index into the flat operand of each window's selected element."""
        by_axis = {place.axis: i for i, place in enumerate(self.places)}
        index: Any = np.int32(0)
        for axis, length in enumerate(dims):
            if axis in by_axis:
                i = by_axis[axis]
                element = lax.div(selected, _full(selected, self.sizes[i + 1 :])) if self.sizes[i + 1 :] else selected
                element = lax.rem(element, _full(element, self.sizes[i : i + 1])) if i else element
                place = self._coordinate(self.places[i], element)
            else:
                place = _iota(self.counts, axis)
            index = index * _scalar(length) + place
        return jnp.broadcast_to(index, self.counts)

    def _coordinate(self, place: _Places, element: Array) -> Array:
        """`place.index[window, element]` for the element that each window chose."""
        start = _iota(self.counts, place.axis) * np.int32(place.index.shape[1])
        return jnp.take(place.index.reshape(-1), start + element, mode="clip")


def _conjunction(arrays: list[Array]) -> Array:
    """The conjunction of broadcastable arrays."""
    result = arrays[0]
    for array in arrays[1:]:
        result = result & array
    return result


def _select(patches: Array, valid: Array, greatest: bool) -> tuple[Array, Array, Array]:
    """Which element of each window `select` keeps: the first extremum after the last NaN, else that NaN.

    XLA replaces the element selected so far unless `ge` (or `le`) holds, which it never does with NaN. Padding
    takes part as -inf (or inf). Also returns whether the element is one of the operand, not padding, and
    whether it is better than padding.
    """
    worst = jnp.asarray((lowest if greatest else highest)(patches.dtype), patches.dtype)
    everywhere = isinstance(valid, np.ndarray) and bool(valid.all())
    patches = patches if everywhere else jnp.where(valid, patches, worst)
    count = patches.shape[-1]
    order = _iota(patches.shape, patches.ndim - 1)
    last_nan = jnp.asarray(-1, np.int32)
    if jnp.issubdtype(patches.dtype, jnp.floating):
        last_nan = jnp.where(patches != patches, order, -1).max(axis=-1)
    candidates = order > last_nan[..., None]
    kept = jnp.where(candidates, patches, worst)
    best = (lax.reduce_max if greatest else lax.reduce_min)(kept, (kept.ndim - 1,))
    first = jnp.where(candidates & (kept == best[..., None]), order, count).min(axis=-1)
    selected = jnp.where(first == count, last_nan, first)
    real = np.bool_(True) if everywhere else (valid & (order == selected[..., None])).any(axis=-1)
    return selected, real, (best != worst) | (last_nan >= 0)


def _scatter_add(source: Array, operand: Array, initial: Any, shape: Windows, greatest: bool) -> Array:
    dims = operand.shape
    if not shape.active:
        return source + initial
    patches = _Patches.of(shape, dims)
    valid = patches.valid()
    selected, real, _ = _select(patches.of_array(operand), valid, greatest)
    index = patches.linear(selected, dims)
    if not isinstance(real, np.bool_):
        source = jnp.where(real, source, jnp.zeros((), source.dtype))
    total = math.prod(dims)
    flat = jnp.broadcast_to(jnp.asarray(initial, source.dtype), (total,))
    flat = flat.at[index.reshape(-1)].add(source.reshape(-1), mode="promise_in_bounds")
    return lax.reshape(flat, dims)


def _greatest(select_prim: Any) -> bool:
    """Whether a comparison selects the greatest (`ge`) or the least (`le`) element."""
    if select_prim.name not in ("ge", "le"):
        raise NotImplementedError(f"selecting by {select_prim.name}: only ge and le make a pooling")
    return bool(select_prim.name == "ge")


def _is_empty(*arrays: Array) -> bool:
    return any(isinstance(d, int) and d == 0 for x in arrays for d in x.shape)


@rules.decompose("select_and_scatter_add")
def select_and_scatter_add(source: Array, operand: Array, *, select_prim: Any, **params: Any) -> Array:
    if _is_empty(source, operand):
        return jnp.zeros(operand.shape, operand.dtype)
    if operand.dtype == np.bool_:
        counted = _scatter_add(source.astype(np.int32), operand.astype(np.int32), 0, Windows.of(**params),
                               _greatest(select_prim))  # fmt: skip
        return counted != 0
    return _scatter_add(source, operand, 0, Windows.of(**params), _greatest(select_prim))


@rules.decompose("select_and_scatter")
def select_and_scatter(
    operand: Array, source: Array, initial: Array, *, select_jaxpr: Any, select_consts: Any, scatter_jaxpr: Any,
    scatter_consts: Any, **params: Any,
) -> Array:  # fmt: skip
    """The form with any comparison and combination, of which pooling's own are possible."""
    select, scatter = open_jaxpr(select_jaxpr, select_consts)[0], open_jaxpr(scatter_jaxpr, scatter_consts)[0]
    if recognise(scatter) is not MONOIDS["add"] or len(select.eqns) != 1:
        raise NotImplementedError("select_and_scatter that does not add what one comparison selects")
    return _scatter_add(source, operand, initial, Windows.of(**params), _greatest(select.eqns[0].primitive))


@rules.decompose("select_and_gather_add")
def select_and_gather_add(tangents: Array, operand: Array, *, select_prim: Any, **params: Any) -> Array:
    shape = Windows.of(**params)
    counts = shape.counts(operand.shape)
    if _is_empty(tangents) or any(isinstance(c, int) and c == 0 for c in counts):
        return jnp.zeros(counts, tangents.dtype)
    if not shape.active:
        return tangents
    patches = _Patches.of(shape, operand.shape)
    valid = patches.valid()
    selected, real, better = _select(patches.of_array(operand), valid, _greatest(select_prim))
    index = patches.linear(selected, operand.shape)
    gathered = jnp.take(tangents.reshape(-1), index, mode="clip")
    return jnp.where(real & better, gathered, jnp.zeros((), tangents.dtype))
