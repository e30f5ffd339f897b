"""QR factors, with and without column pivoting."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jax import lax
from jax2onnx_core import Rules

from jax2onnx_lax.linalg._matrix import (
    at,
    eye_like,
    min_dim,
    permute,
    positions,
    resized,
    stacked,
    strictly_lower,
    take,
)
from jax2onnx_lax.linalg._sizes import never_empty
from jax2onnx_lax.linalg.householder import apply_left, reflect, reflector

__all__ = ["geqp3", "geqrf", "qr", "reduce_pivoting", "rules", "thin_qr"]

rules = Rules()

_Pair = tuple[jax.Array, jax.Array]


def _reduce(a: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """`(v, taus, r)`: reflectors `[..., m, k]`, `[..., k]`, and Qᴴ a `[..., m, n]`; Golub & Van Loan, §5.2.2."""

    def step(left: jax.Array, k: jax.Array) -> tuple[jax.Array, _Pair]:
        v, tau, _ = reflector(at(left, k, -1), k)
        return apply_left(v, jnp.conj(tau), left), (v, tau)

    m, n = a.shape[-2:]
    left, (vectors, taus) = lax.scan(step, a, positions(min_dim(m, n)))
    return stacked(vectors, -1), stacked(taus, -1), left


def reduce_pivoting(
    a: jax.Array, fixed: jax.Array | None = None, order: jax.Array | None = None
) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """Reduce matrices to triangular form by Householder reflectors, with the column of largest remaining norm as the next one.

    Golub & Van Loan, §5.4.2. Columns stay where they are. Norms are computed anew in each step.

    Args:
      a: the matrices, [..., m, n].
      fixed: the number of first positions of `order` that are not pivoted, [...]; None for none.
      order: the columns to begin with, by position, [..., n]; None for their own order.

    Returns:
      `(v, taus, r, order)` with a[..., order] = H₁ … H_k r; `order[..., p]` is the column at position p.
    """
    *batch, m, n = a.shape
    if fixed is None:
        fixed = jnp.zeros(batch, jnp.int32)
    if order is None:
        order = jnp.broadcast_to(positions(n), (*batch, n))
    rows, here = positions(m), positions(n)

    def step(state: _Pair, k: jax.Array) -> tuple[_Pair, _Pair]:
        left, order = state
        remaining = jnp.where((rows >= k)[:, None], left, 0)
        norms = (remaining * jnp.conj(remaining)).real.sum(-2)
        norms = jnp.where(here >= k, permute(norms, order, -1), -1)
        position = jnp.where(k < fixed, k, jnp.argmax(norms, axis=-1).astype(jnp.int32))
        column = take(order, position, -1)
        order = jnp.where(here == position[..., None], at(order, k, -1)[..., None], order)
        order = jnp.where(here == k, column[..., None], order)
        v, tau, _ = reflector(take(left, column, -1), k)
        return (apply_left(v, jnp.conj(tau), left), order), (v, tau)

    (left, order), (vectors, taus) = lax.scan(step, (a, order), positions(min_dim(m, n)))
    return stacked(vectors, -1), stacked(taus, -1), permute(left, order, -1), order


def _packed(v: jax.Array, r: jax.Array) -> jax.Array:
    """R in the upper triangle and the reflectors below it, as `geqrf` returns them."""
    m, n = r.shape[-2:]
    return jnp.where(strictly_lower(m, n), resized(v, -1, n), r)


@rules.decompose("geqrf")
def geqrf(a: jax.Array) -> tuple[jax.Array, jax.Array]:
    """`(packed, taus)`: R above, reflectors below the diagonal of `packed` `[..., m, n]`; `taus` `[..., min(m, n)]`."""
    *batch, m, n = a.shape
    if 0 in a.shape:
        return a, jnp.zeros((*batch, min_dim(m, n)), a.dtype)
    v, taus, r = _reduce(a)
    return _packed(v, r), taus


@rules.decompose("geqp3")
def geqp3(a: jax.Array, jpvt: jax.Array, **_: object) -> tuple[jax.Array, jax.Array, jax.Array]:
    """`(packed, jpvt, taus)` with column pivoting; columns with a nonzero `jpvt` come first, unpivoted.

    The `jpvt` that is returned counts from one, as LAPACK's does.
    """
    *batch, m, n = a.shape
    if 0 in a.shape:
        return a, jpvt, jnp.zeros((*batch, min_dim(m, n)), a.dtype)
    fixed, order = _leading_columns(jpvt)
    v, taus, r, order = reduce_pivoting(a, fixed, order)
    return _packed(v, r), (order + 1).astype(jpvt.dtype), taus


def _leading_columns(jpvt: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The number of fixed columns `[...]`, and the order `[..., n]` after swapping each of them to the front."""
    here = positions(jpvt.shape[-1])

    def swap(state: _Pair, xs: _Pair) -> tuple[_Pair, None]:
        count, order = state
        j, is_fixed = xs
        first, second = take(order, count, -1)[..., None], at(order, j, -1)[..., None]
        swapped = jnp.where(here == j, first, order)
        swapped = jnp.where(here == count[..., None], second, swapped)
        return (count + is_fixed, jnp.where(is_fixed[..., None] != 0, swapped, order)), None

    is_fixed = jnp.moveaxis((jpvt != 0).astype(jnp.int32), -1, 0)
    start = (jnp.zeros(jpvt.shape[:-1], jnp.int32), jnp.broadcast_to(here, jpvt.shape))
    return lax.scan(swap, start, (here, is_fixed))[0]


def thin_qr(a: jax.Array) -> tuple[jax.Array, jax.Array]:
    """`(q, r)` of `a` `[..., m, n]`, m ≥ n: `[..., m, n]` and `[..., n, n]`."""
    return _factors(a.shape, *_reduce(a), columns=a.shape[-1])


def _factors(shape: Sequence[int], v: jax.Array, taus: jax.Array, r: jax.Array, *, columns: int) -> _Pair:
    """`(q, r)` of a matrix of this shape: `columns` columns of Q and rows of R, from the results of `_reduce`."""
    *batch, m, n = shape
    q = reflect(v, taus, jnp.broadcast_to(eye_like(v, m, columns), (*batch, m, columns)))
    return q, jnp.where(strictly_lower(columns, n), 0, r[..., :columns, :])


@rules.decompose("qr")
@never_empty("qr")
def qr(a: jax.Array, *, pivoting: bool, full_matrices: bool, **_: object) -> tuple[jax.Array, ...]:
    """`(q, r)`, or with `pivoting` `(q, r, p)` such that a[..., p] = q r.

    q is `[..., m, m]` with `full_matrices`, else `[..., m, min(m, n)]`.
    """
    *batch, m, n = a.shape
    columns = m if full_matrices else min_dim(m, n)
    if 0 in a.shape:
        q = jnp.broadcast_to(eye_like(a, m, columns), (*batch, m, columns))
        empty = (q, jnp.zeros((*batch, columns, n), a.dtype))
        return (*empty, jnp.zeros((*batch, n), jnp.int32)) if pivoting else empty
    if not pivoting:
        return _factors(a.shape, *_reduce(a), columns=columns)
    *reduced, order = reduce_pivoting(a)
    return (*_factors(a.shape, *reduced, columns=columns), order)
