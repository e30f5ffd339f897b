"""LU factors with partial pivoting, and the permutation that its row swaps make."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax
from jax2onnx_core import Rules

from jax2onnx_lax.linalg._matrix import (
    at,
    magnitude,
    min_dim,
    permute,
    positions,
    quotient,
    resized,
    stacked,
    strictly_lower,
    take,
)
from jax2onnx_lax.linalg._sizes import never_empty

__all__ = ["lu", "lu_pivots_to_permutation", "rules"]

rules = Rules()

_Elimination = tuple[jax.Array, jax.Array, jax.Array]


@rules.decompose("lu")
@never_empty("lu")
def lu(a: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """`(lu, pivots, permutation)` of `a` `[..., m, n]`, as LAPACK's `getrf`: Golub & Van Loan, §3.4.

    Rows are not swapped while eliminating: `order[p]` says which row stands at position p, so that
    each of the min(m, n) steps costs one rank-1 update and otherwise touches vectors only.
    """
    *batch, m, n = a.shape
    steps = min_dim(m, n)
    order = jnp.broadcast_to(positions(m), (*batch, m))
    if 0 in a.shape:
        return a, jnp.zeros((*batch, steps), jnp.int32), order
    start = (a, order, jnp.ones((*batch, m), jnp.bool_))
    (_, order, _), (multipliers, rows, pivots) = lax.scan(_eliminate, start, positions(steps))
    lower = resized(permute(stacked(multipliers, -1), order, -2), -1, n)
    upper = resized(stacked(rows, -2), -2, m)
    return jnp.where(strictly_lower(m, n), lower, upper), stacked(pivots, -1), order


def _eliminate(state: _Elimination, k: jax.Array) -> tuple[_Elimination, tuple[jax.Array, jax.Array, jax.Array]]:
    """Step k: the multipliers (column of L, by original row), the row of U, and the position swapped with k."""
    left, order, unused = state
    here = positions(left.shape[-2])
    column = at(left, k, -1)
    candidates = jnp.where(here >= k, magnitude(permute(column, order, -1)), -1)
    pivot_position = jnp.argmax(candidates, axis=-1).astype(jnp.int32)
    pivot_row = take(order, pivot_position, -1)
    swapped = jnp.where(here == pivot_position[..., None], at(order, k, -1)[..., None], order)
    order = jnp.where(here == k, pivot_row[..., None], swapped)
    unused = unused & (here != pivot_row[..., None])
    row = take(left, pivot_row, -2)
    pivot = at(row, k, -1)
    # A zero pivot leaves its column as it is (all zero), as getrf does.
    multipliers = quotient(column, jnp.where(pivot == 0, 1, pivot)[..., None])
    multipliers = jnp.where(unused, multipliers, 0)
    left = left - multipliers[..., :, None] * row[..., None, :]
    return (left, order, unused), (multipliers, row, pivot_position)


@rules.decompose("lu_pivots_to_permutation")
@never_empty("lu_pivots_to_permutation")
def lu_pivots_to_permutation(pivots: jax.Array, *, permutation_size: int) -> jax.Array:
    """The permutation `[..., permutation_size]` that swapping row i with row `pivots[..., i]`, for each i in turn, gives.

    Negative pivots count from the end. Row i becomes the nearest row of one that is out of range, which does not change.
    """
    here = positions(permutation_size)
    order = jnp.broadcast_to(here, (*pivots.shape[:-1], permutation_size))
    if 0 in order.shape or 0 in pivots.shape:
        return order

    def swap(order: jax.Array, xs: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, None]:
        i, j = xs
        first, second = at(order, i, -1)[..., None], take(order, jnp.clip(j, 0, permutation_size - 1), -1)[..., None]
        order = jnp.where(here == j[..., None], first, order)
        return jnp.where(here == i, second, order), None

    pivots = jnp.where(pivots < 0, pivots + permutation_size, pivots)
    steps = positions(pivots.shape[-1])
    return lax.scan(swap, order, (steps, jnp.moveaxis(pivots, -1, 0)))[0]
