"""Functions of `jax.numpy` that choose and repeat elements: `compress`, `delete`, `repeat`, `trim_zeros`, `split`, `bincount`."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax2onnx_core import Composites, Dim, Replacement
from jax2onnx_core.frontend.sizes import (
    is_from_data,
    is_number_from_data,
    once,
    size_of,
)
from jax2onnx_core.jaxprs import is_positive, is_static
from jax2onnx_core.plugins.errors import ConversionError

from jax2onnx_lax.sizes.masks import masked

__all__ = ["composites"]

composites = Composites()


@composites.call("jax.numpy:compress", name="jax.numpy.compress", is_required=True)
def compress(
    condition: jax.Array, a: jax.Array, axis: int | None = None, *, size: int | None = None, **options: object
) -> Replacement | None:
    if not is_from_data(condition) or size is not None or condition.ndim != 1:
        return None
    x = jnp.ravel(a) if axis is None else jnp.asarray(a)
    axis = 0 if axis is None else axis % x.ndim
    mask, length = condition.astype(bool), condition.shape[0]
    if length != x.shape[axis]:
        if not length <= x.shape[axis]:
            raise ConversionError(f"jax.numpy.compress has {length} conditions for an axis of size {x.shape[axis]}.")
        x = jax.lax.slice_in_dim(x, 0, length, axis=axis)
    return Replacement(masked(x, mask, axis))


@composites.call("jax.numpy:delete", name="jax.numpy.delete", is_required=True)
def delete(
    arr: jax.Array, obj: jax.Array | slice, axis: int | None = None, *, assume_unique_indices: bool = False
) -> Replacement | None:
    bounds = (obj.start, obj.stop, obj.step) if isinstance(obj, slice) else ()
    if not (any(map(is_number_from_data, bounds)) or (is_from_data(obj) and not assume_unique_indices)):
        return None
    x = jnp.ravel(arr) if axis is None else jnp.asarray(arr)
    axis = 0 if axis is None else axis % x.ndim
    if is_number_from_data(obj):
        return Replacement(jnp.delete(x, obj, axis, assume_unique_indices=True))
    kept = jnp.ones(x.shape[axis], bool)
    kept = ~obj if is_from_data(obj) and obj.dtype == np.bool_ else kept.at[obj].set(False)
    return Replacement(masked(x, kept, axis))


@composites.call("jax.numpy:repeat", name="jax.numpy.repeat", is_required=True)
def repeat(
    a: jax.Array, repeats: jax.Array | int, axis: int | None = None, *, total_repeat_length: int | None = None,
    **options: object,
) -> Replacement | None:  # fmt: skip
    if not is_from_data(repeats) or total_repeat_length is not None:
        return None
    if is_number_from_data(repeats):
        return Replacement(jnp.repeat(a, size_of(repeats, "repeat"), axis, **options))  # type: ignore[arg-type]
    x = jnp.ravel(a) if axis is None else jnp.asarray(a)
    axis = 0 if axis is None else axis
    counts = repeats if repeats.shape == (x.shape[axis],) else jnp.broadcast_to(repeats, (x.shape[axis],))
    total = once(counts, "total", lambda: jnp.sum(counts, dtype=int))
    return Replacement(jnp.repeat(x, counts, axis, total_repeat_length=size_of(total, "repeat"), **options))


@composites.call("jax.numpy:roll", name="jax.numpy.roll", is_required=True)
def roll(
    a: jax.Array, shift: int | Sequence[int], axis: int | Sequence[int] | None = None
) -> Replacement | None:  # fmt: skip
    """A roll along axes that may be empty, by which JAX divides a fixed shift."""
    if not any(map(_may_be_empty, jnp.shape(a))) or isinstance(shift, jax.Array):
        return None
    return Replacement(jnp.roll(a, jnp.asarray(shift), axis))


def _may_be_empty(dim: Dim) -> bool:
    """Whether a size is no fixed number and may be 0."""
    return not is_static(dim) and not is_positive(dim)


@composites.call("jax.numpy:take_along_axis", name="jax.numpy.take_along_axis", is_required=True)
def take_along_axis(
    arr: jax.Array, indices: jax.Array, axis: int | None = -1, mode: str | None = None, fill_value: object = None,
    **options: object,
) -> Replacement | None:  # fmt: skip
    """Elements along an axis that may be empty, of which JAX takes zeros."""
    if axis is None or not -jnp.ndim(arr) <= axis < jnp.ndim(arr) or not _may_be_empty(jnp.shape(arr)[axis]):
        return None
    x = jnp.asarray(arr)
    length = x.shape[axis]
    widths = [(0, 0)] * x.ndim
    widths[axis] = (0, jax.core.max_dim(1 - length, 0))
    taken = jnp.take_along_axis(jnp.pad(x, widths), indices, axis, mode, fill_value, **options)  # type: ignore[arg-type]
    return Replacement(jnp.where(jnp.asarray(length) > 0, taken, jnp.zeros((), x.dtype)))


@composites.call("jax.numpy:bincount", name="jax.numpy.bincount", is_required=True)
def bincount(
    x: jax.Array, weights: jax.Array | None = None, minlength: int = 0, *, length: int | None = None, **options: object
) -> Replacement | None:
    if not is_from_data(x) or not jnp.issubdtype(x.dtype, np.integer) or length is not None:
        return None
    largest = jnp.max(x, initial=0).astype(int)
    counted = jnp.where(jnp.asarray(x.size) > 0, largest + 1, 0)
    size = size_of(jnp.maximum(counted, minlength), "bincount")
    return Replacement(jnp.bincount(x, weights, length=size, **options))  # type: ignore[arg-type]


@composites.call("jax.numpy:histogram_bin_edges", name="jax.numpy.histogram_bin_edges", is_required=True)
def histogram_bin_edges(
    a: jax.Array,
    bins: jax.Array | int = 10,
    range: Sequence[float] | None = None,  # noqa: A002
    weights: object = None,
) -> Replacement | None:
    return Replacement(_edges(jnp.asarray(a), bins, range)) if is_number_from_data(bins) else None


def _edges(a: jax.Array, bins: jax.Array, limits: Sequence[float] | None) -> jax.Array:
    """The bounds of bins of one width, from the least number to the largest, or within given limits."""
    values = a.astype(jnp.promote_types(a.dtype, jnp.float32))
    low, high = (jnp.min(values), jnp.max(values)) if limits is None else map(jnp.asarray, limits)
    is_point = low == high
    low, high = jnp.where(is_point, low - 0.5, low), jnp.where(is_point, high + 0.5, high)
    return jnp.linspace(low, high, size_of(bins, "histogram", least=1) + 1, dtype=values.dtype)


@composites.call("jax.numpy:histogram", name="jax.numpy.histogram", is_required=True)
def histogram(
    a: jax.Array, bins: jax.Array | int = 10, range: Sequence[float] | None = None, weights: jax.Array | None = None,  # noqa: A002
    density: bool | None = None,
) -> Replacement | None:  # fmt: skip
    if not is_number_from_data(bins):
        return None
    edges = _edges(jnp.asarray(a), bins, range)
    values = jnp.asarray(a).astype(edges.dtype)
    place = jnp.sum(edges <= values[..., None], axis=-1)
    place = jnp.where(values == edges[-1], edges.shape[0] - 1, place)
    each = jnp.ones_like(values) if weights is None else jnp.asarray(weights).astype(edges.dtype)
    counts = jnp.zeros(edges.shape[0], each.dtype).at[place].add(each)[1:]
    return Replacement((counts / jnp.diff(edges) / counts.sum() if density else counts, edges))


@composites.call("jax.numpy:trim_zeros", name="jax.numpy.trim_zeros", is_required=True)
def trim_zeros(
    filt: jax.Array, trim: str = "fb", axis: int | Sequence[int] | None = None, **options: object
) -> Replacement | None:
    if not is_from_data(filt):
        return None
    axes = range(filt.ndim) if axis is None else [axis] if isinstance(axis, int) else axis
    chosen = {one % filt.ndim for one in axes}
    found = [_without_zeros(filt, one, trim.lower()) if one in chosen else slice(None) for one in range(filt.ndim)]
    return Replacement(filt[tuple(found)])


def _without_zeros(x: jax.Array, axis: int, trim: str) -> slice:
    """The part of an axis from the first row that is not zero up to the last."""
    filled = jnp.any(x != 0, axis=[other for other in range(x.ndim) if other != axis])
    places, length = jnp.arange(x.shape[axis]), jnp.asarray(x.shape[axis])
    first = jnp.min(jnp.where(filled, places, length), initial=np.iinfo(np.int32).max) if "f" in trim else 0
    last = jnp.max(jnp.where(filled, places + 1, 0), initial=0)
    if "b" in trim:
        return slice(first, last)
    return slice(first, None)


@composites.call("jax._src.numpy.lax_numpy:_split", name="jax.numpy.split", is_required=True)
def split(
    op: str, ary: jax.Array, indices_or_sections: jax.Array | Sequence[jax.Array | int], axis: int = 0
) -> Replacement | None:
    given = indices_or_sections
    if not (
        (is_from_data(given) and bool(given.ndim))
        or (isinstance(given, list | tuple) and any(map(is_from_data, given)))
    ):
        return None
    x = jnp.asarray(ary)
    places: list[jax.Array | Dim | None] = [0, *(given[i] for i in range(len(given))), None]
    whole = (slice(None),) * (axis % x.ndim)
    return Replacement([x[(*whole, slice(*bounds))] for bounds in itertools.pairwise(places)])
