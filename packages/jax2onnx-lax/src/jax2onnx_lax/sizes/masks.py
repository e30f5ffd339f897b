"""Positions and elements that a mask selects: `nonzero`, `argwhere`, and indexing by masks."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jax2onnx_core import Call, Composites, Context, Replacement, Rules, Value, bind_composite
from jax2onnx_core.frontend.sizes import is_from_data, once, size_of
from jax2onnx_core.jaxprs import is_positive, is_static
from jax2onnx_core.symbols.symbols import Dim

if TYPE_CHECKING:
    from typing_extensions import TypeIs

__all__ = ["composites", "is_mask", "mask_positions", "masked", "rules"]

composites = Composites()
rules = Rules()


def is_mask(value: object) -> TypeIs[jax.Array]:
    """Whether an index is an array of booleans that only a run of the model knows."""
    return is_from_data(value) and value.dtype == np.bool_


def mask_size(mask: jax.Array, operation: str) -> Dim:
    """The number of elements that a mask selects, as a dimension: the same for the same mask."""
    if any(is_static(dim) and dim == 0 for dim in mask.shape):
        return 0
    count = once(mask, "count", lambda: jnp.sum(mask, dtype=int))
    return size_of(count, operation, most=math.prod(mask.shape), is_count=True)


def _mask_of(a: jax.Array) -> jax.Array:
    return a if a.dtype == np.bool_ else once(a, "mask", lambda: a != 0)


def mask_positions(mask: jax.Array, operation: str) -> tuple[jax.Array, ...]:
    """The indices along each axis of the elements that a mask selects."""
    mask_size(mask, operation)
    return once(mask, "positions", lambda: jnp.nonzero(mask))


def _positions(mask: jax.Array, count: Dim) -> tuple[jax.Array, ...]:
    """The indices along each axis of as many elements as a mask selects, by JAX's formula."""
    if is_static(count) and count == 0:
        return tuple(jnp.zeros(0, int) for _ in mask.shape)
    rest = jnp.cumsum(jnp.bincount(jnp.cumsum(mask.reshape(-1)), length=count))
    found: list[jax.Array] = []
    for dim in reversed(mask.shape[1:]):
        size = jnp.asarray(dim, rest.dtype)
        found.append(rest % size)
        rest = rest // size
    return (rest, *reversed(found))


def _mask_and_count(a: jax.Array, size: int | None, operation: str) -> tuple[jax.Array, Dim] | None:
    """Where an array is not zero, and how often, if only a run of the model knows it."""
    if not is_from_data(a) or not a.ndim or size is not None:
        return None
    mask = _mask_of(a)
    return mask, mask_size(mask, operation)


@composites.call("jax.numpy:nonzero", name="jax.numpy.nonzero", is_required=True)
def nonzero(a: jax.Array, *, size: int | None = None, fill_value: object = None) -> Replacement | None:
    if size is not None and isinstance(a, jax.core.Tracer) and not all(map(is_positive, a.shape)):
        return Replacement(_padded_positions(_mask_of(a), size, fill_value))
    found = _mask_and_count(a, size, "nonzero")
    if found is None:
        return None
    return Replacement(bind_composite("jax.numpy.nonzero", Call(found[0]), lambda: _positions(*found)))


def _padded_positions(mask: jax.Array, size: int, fill_value: object) -> tuple[jax.Array, ...]:
    """The first `size` positions, and what fills their place: 0 where the array turns out to have no elements, as in JAX."""
    fills = fill_value if isinstance(fill_value, tuple) else (0 if fill_value is None else fill_value,) * mask.ndim
    is_there, is_empty = jnp.arange(size) < jnp.sum(mask, dtype=int), jnp.asarray(mask.size) == 0
    return tuple(
        jnp.where(is_there, place, jnp.where(is_empty, 0, fill))
        for place, fill in zip(_positions(mask, size), fills, strict=True)
    )


@rules.lower("jax.numpy.nonzero")
def lower_nonzero(ctx: Context, mask: Value) -> list[Value]:
    """NonZero, whose rows are the results."""
    ctx.require("NonZero", mask)
    rank, (count,) = len(ctx.known_dims(mask)), ctx.avals_out[0].shape
    found = ctx.cast(ctx.op.NonZero(mask, dims=(rank, count)), ctx.avals_out[0].dtype)
    if rank == 1:
        return [ctx.reshape(found, (count,))]
    return [ctx.squeeze(part, (0,)) for part in ctx.op.several("Split", found, outputs=rank, axis=0, num_outputs=rank)]


@composites.call("jax.numpy:argwhere", name="jax.numpy.argwhere", is_required=True)
def argwhere(a: jax.Array, *, size: int | None = None, fill_value: object = None) -> Replacement | None:
    found = _mask_and_count(a, size, "argwhere")
    if found is None:
        return None
    return Replacement(bind_composite("jax.numpy.argwhere", Call(found[0]), lambda: jnp.stack(_positions(*found), 1)))


@rules.lower("jax.numpy.argwhere")
def lower_argwhere(ctx: Context, mask: Value) -> Value:
    """NonZero, transposed."""
    ctx.require("NonZero", mask)
    count, rank = ctx.avals_out[0].shape
    return ctx.cast(ctx.transpose(ctx.op.NonZero(mask, dims=(rank, count)), (1, 0)), ctx.avals_out[0].dtype)


def masked(x: jax.Array, mask: jax.Array, axis: int) -> jax.Array:
    """The elements of `x` that a mask over its axes from `axis` on selects, along one axis in their place."""
    end, count = axis + mask.ndim, mask_size(mask, "mask")

    def by_position() -> jax.Array:
        flat = x.reshape((*x.shape[:axis], math.prod(x.shape[axis:end]), *x.shape[end:]))
        (positions,) = _positions(mask.reshape(-1), count)
        return flat.at[(*[slice(None)] * axis, positions)].get(mode="promise_in_bounds")

    result: jax.Array = bind_composite("jax.numpy.compress", Call(x, mask, axis=axis), by_position)
    return result


@rules.lower("jax.numpy.compress")
def lower_compress(ctx: Context, x: Value, mask: Value, *, axis: int) -> Value:
    """Compress, along the axes of the mask as one."""
    ctx.require("Compress", x)
    dims, rank = ctx.known_dims(x), len(ctx.known_dims(mask))
    rest = (*dims[:axis], math.prod(dims[axis : axis + rank]), *dims[axis + rank :])
    flat = ctx.reshape(mask, (math.prod(dims[axis : axis + rank]),))
    return ctx.op.Compress(ctx.reshape(x, rest), flat, axis=axis, dims=ctx.avals_out[0].shape)
