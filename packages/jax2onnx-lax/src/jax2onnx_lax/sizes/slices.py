"""Indexing with masks and computed bounds: `x[mask]`, `x[a:b]`, `x.at[mask].set(y)`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jax2onnx_core import Composites, Dim, Replacement
from jax2onnx_core.frontend.sizes import are_possible, is_number_from_data, once, size_of
from jax2onnx_core.jaxprs import Dims, is_positive, is_static, is_symbolic_dim
from jax2onnx_core.plugins.errors import ConversionError

from jax2onnx_lax._compat import rewriting_take, scatter_update
from jax2onnx_lax.sizes.masks import is_mask, mask_positions, masked

if TYPE_CHECKING:
    from typing_extensions import TypeIs

__all__ = ["composites"]

composites = Composites()

#: An entry of an index as users write it.
Entry = object


@composites.call("jax._src.numpy.indexing:rewriting_take", name="jax.numpy.indexing", is_required=True)
def take(arr: jax.Array, idx: Entry, **options: object) -> Replacement | None:
    entries = _entries(idx)
    if any(map(is_symbolic_dim, entries)):
        return Replacement(rewriting_take(arr, tuple(map(_as_array, entries)), **options))
    stepped = [(entry, axis) for entry, axis in _with_axes(entries, arr.ndim) if _is_stepped(entry, arr.shape, axis)]
    if stepped:
        others = tuple(slice(None) if any(entry is one for one, _ in stepped) else entry for entry in entries)
        return Replacement(rewriting_take(_in_steps(arr, stepped), others, **options))
    if not _has_sizes_from_data(entries):
        return None
    arr, entries, _ = _with_axes_of_flags(arr, entries)
    x, rest = _sliced(arr, entries)
    x = _strided(x, entries)
    found = _only_mask(rest)
    if found is not None:
        mask, axis = found
        _check_mask(mask, x.shape, axis)
        return Replacement(masked(x, mask, axis))
    return Replacement(rewriting_take(x, tuple(_without_masks(rest, x.shape)), **options))


@composites.call("jax._src.ops.scatter:_scatter_update", name="jax.numpy.indexed_update", is_required=True)
def update(
    x: jax.Array, idx: Entry, y: jax.Array, scatter_op: Callable[..., jax.Array], *args: object, **options: object
) -> Replacement | None:
    entries = _entries(idx)
    if any(map(is_symbolic_dim, entries)):
        return Replacement(scatter_update(x, tuple(map(_as_array, entries)), y, scatter_op, *args, **options))
    if not _has_sizes_from_data(entries):
        return None
    x, entries, added = _with_axes_of_flags(jnp.asarray(x), entries)
    if any(_is_computed(entry) and _has_step(entry) for entry in entries):
        raise ConversionError("Update x[a:b] first where a and b are computed, then every so many rows of it.")
    part, rest = _sliced(x, entries)
    chosen = _chosen(part, rest, y, scatter_op)
    if chosen is not None and part is x:
        return Replacement(jnp.squeeze(chosen, added))
    updated = scatter_update(part, tuple(_without_masks(rest, part.shape)), y, scatter_op, *args, **options)
    starts = [bounds.start for bounds in _bounds(x, entries)]
    whole = updated if part is x else jax.lax.dynamic_update_slice(x, updated, starts)
    return Replacement(jnp.squeeze(whole, added))


#: What an update makes of an element and a number, where one number is for all elements that a mask selects.
_UPDATES: dict[Callable[..., jax.Array], Callable[[jax.Array, jax.Array], jax.Array]] = {
    jax.lax.scatter: lambda x, y: y,
    jax.lax.scatter_add: jnp.add,
    jax.lax.scatter_mul: jnp.multiply,
    jax.lax.scatter_min: jnp.minimum,
    jax.lax.scatter_max: jnp.maximum,
}


def _chosen(
    x: jax.Array, entries: Sequence[Entry], y: jax.Array, scatter_op: Callable[..., jax.Array]
) -> jax.Array | None:
    """The update by one number as a choice between it and the elements, which needs no positions; None for other updates."""
    found, update_of = _only_mask(entries), _UPDATES.get(scatter_op)
    if found is None or update_of is None or np.ndim(y) or jnp.result_type(x, y) != x.dtype:
        return None
    mask, axis = found
    _check_mask(mask, x.shape, axis)
    mask = mask.reshape(mask.shape + (1,) * (x.ndim - axis - mask.ndim))
    return jnp.where(mask, update_of(x, jnp.asarray(y, x.dtype)), x)


def _is_stepped(entry: Entry, dims: Dims, axis: int) -> TypeIs[slice]:
    """Whether an entry takes every so many elements of an axis, which JAX looks for in one of at least one element only."""
    if not isinstance(entry, slice) or entry.start is not None or entry.stop is not None:
        return False
    if not isinstance(entry.step, int) or entry.step in (0, 1):
        return False
    return not is_static(dims[axis]) and not is_positive(dims[axis])


def _in_steps(x: jax.Array, stepped: Sequence[tuple[slice, int]]) -> jax.Array:
    """Every so many elements along these axes, from the end where the step is negative."""
    for entry, axis in stepped:
        forwards = jax.lax.rev(x, (axis,)) if entry.step < 0 else x
        x = jax.lax.slice_in_dim(forwards, 0, None, abs(entry.step), axis)
    return x


def _entries(idx: Entry) -> tuple[Entry, ...]:
    return idx if isinstance(idx, tuple) else (idx,)


def _as_array(entry: Entry) -> Entry:
    """An entry of an index, as an array where it is a size that is no fixed number."""
    return jnp.asarray(entry) if is_symbolic_dim(entry) else entry


def _has_sizes_from_data(entries: Sequence[Entry]) -> bool:
    return are_possible() and any(is_mask(entry) or _is_computed(entry) for entry in entries)


def _is_computed(entry: Entry) -> TypeIs[slice]:
    """Whether an entry is a slice with a bound that only a run of the model knows."""
    return isinstance(entry, slice) and any(map(is_number_from_data, (entry.start, entry.stop, entry.step)))


def _has_step(entry: slice) -> bool:
    """Whether a slice leaves elements out."""
    return is_number_from_data(entry.step) or entry.step not in (None, 1)


def _with_axes(entries: Sequence[Entry], rank: int) -> Iterator[tuple[Entry, int]]:
    """Each entry with the first axis that it is about."""
    taken = sum(map(_axes_of, entries))
    axis = 0
    for entry in entries:
        yield entry, axis
        axis += rank - taken if entry is Ellipsis else _axes_of(entry)


def _axes_of(entry: Entry) -> int:
    """The number of axes that an entry is about."""
    if entry is None or entry is Ellipsis or isinstance(entry, bool):
        return 0
    return entry.ndim if isinstance(entry, (np.ndarray, jax.Array)) and entry.dtype == np.bool_ else 1


# -- slices with computed bounds -------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class _Bounds:
    """The part of an axis that a slice takes: its first element, and its size."""

    start: jax.Array | int
    size: Dim


def _sliced(x: jax.Array, entries: Sequence[Entry]) -> tuple[jax.Array, list[Entry]]:
    """The part of `x` that the slices with computed bounds take, without their steps, and the entries that remain."""
    rest = [slice(None) if _is_computed(entry) else entry for entry in entries]
    if not any(map(_is_computed, entries)):
        return x, rest
    bounds = _bounds(x, entries)
    return jax.lax.dynamic_slice(x, [b.start for b in bounds], [b.size for b in bounds]), rest


def _strided(x: jax.Array, entries: Sequence[Entry]) -> jax.Array:
    """`x` without the elements that the steps of slices with computed bounds leave out; there may be none."""
    for entry, axis in _with_axes(entries, x.ndim):
        if _is_computed(entry) and _has_step(entry):
            size = (x.shape[axis] + entry.step - 1) // entry.step
            x = jnp.take(x, entry.step * jnp.arange(size), axis=axis, mode="clip")
    return x


def _bounds(x: jax.Array, entries: Sequence[Entry]) -> list[_Bounds]:
    """The part of each axis that the slices with computed bounds take."""
    found = [_Bounds(0, size) for size in x.shape]
    for entry, axis in _with_axes(entries, x.ndim):
        if _is_computed(entry):
            found[axis] = _bounds_of(entry, x.shape[axis])
    return found


def _bounds_of(entry: slice, size: Dim) -> _Bounds:
    if is_number_from_data(entry.step) or (entry.step is not None and entry.step < 1):
        raise ConversionError(
            "A slice with bounds that are computed has a step that is a positive number; reverse the slice by [::-1] where it is to be "
            "read from its end."
        )
    given = [bound for bound in (entry.start, entry.stop) if is_number_from_data(bound)]
    what = f"slice of {size} from {_key(entry.start)} to {_key(entry.stop)}"
    return once(given[-1], what, lambda: _computed_bounds(entry.start, entry.stop, size))


def _key(bound: object) -> str:
    return f"number {id(bound)}" if is_number_from_data(bound) else str(bound)


def _computed_bounds(start: object, stop: object, size: Dim) -> _Bounds:
    length = jnp.asarray(size)
    first = jnp.zeros_like(length) if start is None else _position(start, length)
    last = length if stop is None else _position(stop, length)
    count = last if start is None else jnp.maximum(last - first, 0)
    return _Bounds(0 if start is None else first, size_of(count, "slice", most=size, is_count=True))


def _position(bound: object, length: jax.Array) -> jax.Array:
    """Where a bound of a slice is: from the end where it is negative, and within the axis."""
    number = jnp.asarray(bound)
    most = np.iinfo(length.dtype).max
    if np.iinfo(number.dtype).max > most:  # unsigned, and negative in the type of the length
        number = jnp.minimum(number, most)
    number = number.astype(jnp.promote_types(number.dtype, length.dtype))
    return jnp.clip(jnp.where(number < 0, number + length, number), 0, length).astype(length.dtype)


# -- masks -----------------------------------------------------------------------------------


def _with_axes_of_flags(
    x: jax.Array, entries: tuple[Entry, ...]
) -> tuple[jax.Array, tuple[Entry, ...], tuple[int, ...]]:
    """`x` with an axis of one element for each mask that is one boolean, the entries for it, and these axes."""
    places = [axis for entry, axis in _with_axes(entries, x.ndim) if is_mask(entry) and not entry.ndim]
    if not places:
        return x, entries, ()
    added = tuple(axis + i for i, axis in enumerate(places))
    masks = tuple(entry.reshape(1) if is_mask(entry) and not entry.ndim else entry for entry in entries)
    return jnp.expand_dims(x, added), masks, added


def _only_mask(entries: Sequence[Entry]) -> tuple[jax.Array, int] | None:
    """A mask, with its first axis, where it is all that an index has beside whole axes before it; None where there is more."""
    masks = [(entry, axis) for axis, entry in enumerate(entries) if is_mask(entry)]
    whole = all(isinstance(entry, slice) and entry == slice(None) for entry in entries if not is_mask(entry))
    return masks[0] if len(masks) == 1 and whole else None


def _without_masks(entries: Sequence[Entry], shape: Dims) -> Iterator[Entry]:
    """The entries, in which masks are the positions that they select."""
    for entry, axis in _with_axes(entries, len(shape)):
        if is_mask(entry):
            _check_mask(entry, shape, axis)
            yield from mask_positions(entry, "mask")
        else:
            yield entry


def _check_mask(mask: jax.Array, shape: Dims, axis: int) -> None:
    """Raise where a mask is not for the axes that it stands for."""
    wanted = tuple(shape[axis : axis + mask.ndim])
    if tuple(mask.shape) != wanted:
        raise ConversionError(
            f"A mask of shape {mask.shape} is the index of axes of the sizes {wanted}, which have to be the same."
        )
