"""Cholesky factors and triangular systems."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax
from jax2onnx_core import Rules

from jax2onnx_lax.linalg._matrix import (
    at,
    columns_first,
    diagonal,
    divided,
    is_complex,
    nan_unless,
    positions,
    quotient,
    stacked,
    strictly_lower,
)
from jax2onnx_lax.linalg._sizes import never_empty

__all__ = ["cholesky", "cholesky_update", "rules", "solve_triangular", "symmetric_product", "triangular_solve"]

rules = Rules()


@rules.decompose("cholesky")
@never_empty("cholesky")
def cholesky(a: jax.Array) -> jax.Array:
    """Lower Cholesky factors of Hermitian `a` `[..., n, n]`, of which only the lower triangle is read.

    The upper triangle of the result is that of `a`, as LAPACK's `potrf` leaves it; a matrix that is not
    positive definite gives NaN throughout. Golub & Van Loan, Matrix Computations, 4th ed., §4.2.5
    (outer product form): step k takes column k and subtracts its outer product from what is left.
    """
    if 0 in a.shape:
        return a
    size = a.shape[-1]
    rows = positions(size)

    def step(left: jax.Array, k: jax.Array) -> tuple[jax.Array, jax.Array]:
        column = at(left, k, -1)
        pivot = jnp.sqrt(at(column, k, -1).real)[..., None]
        column = jnp.where(rows > k, divided(column, pivot), jnp.where(rows == k, pivot, 0).astype(a.dtype))
        return left - column[..., :, None] * jnp.conj(column)[..., None, :], column

    factor = stacked(lax.scan(step, a, rows)[1], -1)
    ok = jnp.all(diagonal(factor).real > 0, axis=-1)
    return nan_unless(ok, jnp.where(strictly_lower(size, size).T, a, factor))


def solve_triangular(a: jax.Array, b: jax.Array, *, lower: bool, unit_diagonal: bool = False) -> jax.Array:
    """Solve `a @ x = b` for triangular `a`, whose other triangle is not read.

    Column-oriented substitution: Golub & Van Loan, §3.1.3. The step for unknown i uses rows after i
    (before i for an upper triangle) of column i alone: what else stands in that column
    only reaches rows which are already solved.

    Args:
      a: the triangular matrices, [..., n, n].
      b: the right sides, [..., n, k].
      lower: whether `a` is the lower triangle.
      unit_diagonal: whether the diagonal of `a` is taken as ones.

    Returns:
      [..., n, k].
    """
    if 0 in b.shape:
        return b
    pivots = columns_first(diagonal(a)[..., None, :])

    def step(rest: jax.Array, xs: tuple[jax.Array, jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        i, column, pivot = xs
        x = at(rest, i, -2)
        if not unit_diagonal:
            x = quotient(x, pivot)
        return rest - column[..., :, None] * x[..., None, :], x

    xs = (positions(a.shape[-1]), columns_first(a), pivots)
    return stacked(lax.scan(step, b, xs, reverse=not lower)[1], -2)


@rules.decompose("triangular_solve")
@never_empty("triangular_solve")
def triangular_solve(
    a: jax.Array,
    b: jax.Array,
    *,
    left_side: bool,
    lower: bool,
    transpose_a: bool,
    conjugate_a: bool,
    unit_diagonal: bool,
) -> jax.Array:
    """op(a) x = b, or x op(a) = b unless `left_side`; op transposes and/or conjugates."""
    if conjugate_a and is_complex(a):
        a = jnp.conj(a)
    if transpose_a == left_side:
        a, lower = jnp.swapaxes(a, -1, -2), not lower
    if left_side:
        return solve_triangular(a, b, lower=lower, unit_diagonal=unit_diagonal)
    x = solve_triangular(a, jnp.swapaxes(b, -1, -2), lower=lower, unit_diagonal=unit_diagonal)
    return jnp.swapaxes(x, -1, -2)


@rules.decompose("cholesky_update")
@never_empty("cholesky_update")
def cholesky_update(r: jax.Array, w: jax.Array) -> jax.Array:
    """Upper `r'` with r'ᵀ r' = rᵀ r + w wᵀ, by one Givens rotation per row: Golub & Van Loan, §6.5.4."""
    if 0 in r.shape:
        return r

    def step(w: jax.Array, xs: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        k, row = xs
        x, y = at(row, k, -1), at(w, k, -1)
        nothing = y == 0
        scale = jnp.where(nothing, 1, jnp.maximum(jnp.abs(x), jnp.abs(y)))
        x, y = x / scale, y / scale
        norm = jnp.where(nothing, 1, jnp.sqrt(x * x + y * y))
        c, s = jnp.where(nothing, 1, x / norm), y / norm
        return c * w - s * row, c * row + s * w

    return lax.scan(step, w, (positions(r.shape[-1]), r))[1]


@rules.decompose("symmetric_product")
@never_empty("symmetric_product")
def symmetric_product(a: jax.Array, c: jax.Array, *, alpha: float, beta: float, **_: object) -> jax.Array:
    """alpha · a aᵀ + beta · c, for `a` `[..., m, n]` and `c` `[..., m, m]`."""
    return alpha * (a @ jnp.swapaxes(a, -1, -2)) + beta * c
