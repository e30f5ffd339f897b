"""Sets of values: `unique` with all its results, `union1d`, `setdiff1d`, `setxor1d`."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax2onnx_core import Call, Composites, Context, Replacement, Rules, Value, bind_composite
from jax2onnx_core.frontend.sizes import is_from_data, once, size
from jax2onnx_core.jaxprs import is_positive, is_static

from jax2onnx_lax._compat import sorted_rows
from jax2onnx_lax.sizes.masks import masked

__all__ = ["composites", "rules"]

composites = Composites()
rules = Rules()


@composites.call("jax.numpy:unique", name="jax.numpy.unique", is_required=True)
def unique(
    ar: jax.Array, return_index: bool = False, return_inverse: bool = False, return_counts: bool = False,
    axis: int | None = None, *, equal_nan: bool = True, **options: object,
) -> Replacement | None:  # fmt: skip
    if not is_from_data(ar) or options.get("size") is not None:
        return None
    wanted = (True, return_index, return_inverse, return_counts)
    ar = jax.lax.stop_gradient(ar)  # JAX reads the numbers themselves here, whose tangents are zero
    x = jnp.ravel(ar) if axis is None else ar
    along = 0 if axis is None else axis % ar.ndim

    def by_sorting() -> list[jax.Array]:
        return _by_sorting(x, along, equal_nan)

    def make() -> list[jax.Array]:
        with size(at_least=int(is_positive(x.shape[along]))):
            if axis is None and jnp.issubdtype(x.dtype, np.integer):
                found: list[jax.Array] = bind_composite("jax.numpy.unique", Call(x), by_sorting)
                return found
            return by_sorting()

    compares_nan = equal_nan and jnp.issubdtype(x.dtype, np.inexact)
    found = [*once(x, f"values along {along}, {compares_nan}", make)]
    found[2] = found[2].reshape(ar.shape) if axis is None else found[2]
    chosen = tuple(result for result, is_wanted in zip(found, wanted, strict=True) if is_wanted)
    return Replacement(chosen[0] if len(chosen) == 1 else chosen)


def _sorted_rows(x: jax.Array, axis: int, equal_nan: bool) -> tuple[jax.Array, jax.Array, jax.Array]:
    """The rows along an axis in order, which of them differ from the one before, and where they were."""
    moved = jnp.moveaxis(x, axis, 0)
    if is_static(math.prod(moved.shape[1:])):
        return sorted_rows(x, axis, equal_nan)
    rows, places = moved.reshape(moved.shape[0], math.prod(moved.shape[1:])), jnp.arange(moved.shape[0])
    last = jnp.asarray(rows.shape[1]) - 1

    def by_column(i: jax.Array, order: jax.Array) -> jax.Array:
        return order[jnp.argsort(jnp.take(rows, last - i, axis=1)[order])]

    order = jax.lax.fori_loop(0, last + 1, by_column, places)
    after, before = rows[order[1:]], rows[order[:-1]]
    differs = after != before
    if equal_nan and jnp.issubdtype(x.dtype, np.inexact):
        differs &= ~(jnp.isnan(after) & jnp.isnan(before))
    return moved[order], jnp.ones(places.shape, bool).at[1:].set(differs.any(1)), order


def _by_sorting(x: jax.Array, axis: int, equal_nan: bool) -> list[jax.Array]:
    """The values, where each is first, which one each element has, and how often each is there."""
    rows, is_first, order = _sorted_rows(x, axis, equal_nan)
    values = jnp.moveaxis(masked(rows, is_first, 0), 0, axis)
    (places,) = jnp.nonzero(is_first)
    ends = jnp.concatenate([places[1:], jnp.full(1, x.shape[axis], places.dtype)])[: places.shape[0]]
    inverse = jnp.zeros(is_first.shape, int).at[order].set(jnp.cumsum(is_first) - 1)
    return [values, masked(order, is_first, 0), inverse, ends - places]


@rules.lower("jax.numpy.unique")
def lower_unique(ctx: Context, x: Value) -> list[Value]:
    """The operator Unique, for numbers of which any two are equal or not."""
    ctx.require("Unique", x)
    types = [(aval.dtype, aval.shape) for aval in ctx.avals_out]
    results = ctx.op.several("Unique", x, outputs=4, sorted=1)
    for result, (_, dims) in zip(results, types, strict=True):
        ctx.set_dims(result, dims)
    return [ctx.cast(result, dtype) for result, (dtype, _) in zip(results, types, strict=True)]


@composites.call("jax.numpy:union1d", name="jax.numpy.union1d", is_required=True)
def union1d(ar1: jax.Array, ar2: jax.Array, **options: object) -> Replacement | None:
    if not _are_from_data(ar1, ar2) or options.get("size") is not None:
        return None
    return Replacement(jnp.unique(jnp.concatenate([jnp.asarray(ar1), jnp.asarray(ar2)], axis=None)))


@composites.call("jax.numpy:setdiff1d", name="jax.numpy.setdiff1d", is_required=True)
def setdiff1d(ar1: jax.Array, ar2: jax.Array, assume_unique: bool = False, **options: object) -> Replacement | None:
    if not _are_from_data(ar1, ar2) or options.get("size") is not None:
        return None
    x = jnp.ravel(ar1) if assume_unique else jnp.unique(jnp.ravel(ar1))
    missing = jnp.isin(x, jnp.ravel(ar2), invert=True)
    return Replacement(x[missing])


@composites.call("jax.numpy:setxor1d", name="jax.numpy.setxor1d", is_required=True)
def setxor1d(ar1: jax.Array, ar2: jax.Array, assume_unique: bool = False, **options: object) -> Replacement | None:
    if not _are_from_data(ar1, ar2) or options.get("size") is not None:
        return None
    parts = [jnp.ravel(one) if assume_unique else jnp.unique(jnp.ravel(one)) for one in (ar1, ar2)]
    values = jnp.sort(jnp.concatenate(parts))
    places, count = jnp.arange(values.shape[0]), jnp.asarray(values.shape[0])
    before, after = values[jnp.maximum(places - 1, 0)], values[jnp.minimum(places + 1, count - 1)]
    is_alone = ((places == 0) | (before != values)) & ((places == count - 1) | (after != values))
    return Replacement(values[is_alone])


def _are_from_data(*arrays: object) -> bool:
    return any(map(is_from_data, arrays))
