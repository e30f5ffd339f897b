"""Linear systems: tridiagonal ones, and `custom_linear_solve`, which brings its own solver."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax2onnx_core import Rules

from jax2onnx_lax.linalg.matrix import machine_epsilon, magnitude, nan_unless, quotient, stacked

__all__ = ["custom_linear_solve", "rules", "tridiagonal_solve"]

rules = Rules()


@rules.lower("custom_linear_solve", packed=True)
def custom_linear_solve(ctx: Any, *operands: Any, const_lengths: Any, jaxprs: Any) -> Any:
    """The user's (or `jnp.linalg.solve`'s) `solve` on the right-hand sides; the other functions serve derivatives."""
    before = const_lengths.matvec + const_lengths.vecmat
    constants = operands[before : before + const_lengths.solve]
    return ctx.inline(jaxprs.solve, *constants, *operands[sum(const_lengths) :])


_Row = tuple[jax.Array, jax.Array, jax.Array]


@rules.decompose("tridiagonal_solve")
def tridiagonal_solve(
    dl: jax.Array, d: jax.Array, du: jax.Array, b: jax.Array, *, perturb_singular: bool = False
) -> jax.Array:
    """`x` `[..., n, k]` with A x = b for A of sub-, main and superdiagonal `dl`, `d`, `du` `[..., n]`.

    Gaussian elimination with partial pivoting, as LAPACK's `gtsv`: a swap fills in a second
    superdiagonal. A singular A gives NaN, unless `perturb_singular` replaces vanishing pivots.
    """
    if 0 in b.shape:
        return b
    du = du.at[..., -1].set(0)
    tiny = _smallest_pivot(dl, d, du) if perturb_singular else None
    diagonals, rhs = [jnp.moveaxis(x, -1, 0) for x in (dl, d, du)], jnp.moveaxis(b, -2, 0)
    first = ((diagonals[1][0], diagonals[2][0], jnp.zeros_like(d[..., 0])), rhs[0])

    def step(state: tuple[_Row, jax.Array], xs: tuple[jax.Array, ...]) -> Any:
        return _eliminate(state, xs, tiny)

    last, eliminated = lax.scan(step, first, (*(x[1:] for x in diagonals), rhs[1:]))
    (pivots, one, two), rhs = jax.tree.map(lambda x, y: jnp.concatenate([x, y[None]]), eliminated, last)
    if tiny is not None:
        pivots = _perturbed(pivots, tiny)
    zero = jnp.zeros_like(rhs[0])
    _, x = lax.scan(_substitute, (zero, zero), (pivots, one, two, rhs), reverse=True)
    return nan_unless(jnp.all(pivots != 0, axis=0), stacked(x, -2))


def _eliminate(state: tuple[_Row, jax.Array], xs: tuple[jax.Array, ...], tiny: jax.Array | None) -> Any:
    """Clear the entry below the current row's pivot, the larger of the two entries being the pivot.

    A row is its entries on the diagonal and the two places right of it; its right-hand side is `[..., k]`.
    """
    (pivot, one, two), rhs = state
    below, middle, right, below_rhs = xs
    if tiny is not None:
        pivot = jnp.where(magnitude(below) > magnitude(pivot), pivot, _perturbed(pivot, tiny))
    swap = magnitude(pivot) < magnitude(below)
    upper = [jnp.where(swap, x, y) for x, y in ((below, pivot), (middle, one), (right, two))]
    lower = [jnp.where(swap, x, y) for x, y in ((pivot, below), (one, middle), (two, right))]
    wide = swap[..., None]
    upper_rhs, lower_rhs = jnp.where(wide, below_rhs, rhs), jnp.where(wide, rhs, below_rhs)
    factor = quotient(lower[0], jnp.where(upper[0] == 0, 1, upper[0]))
    remaining = (lower[1] - factor * upper[1], lower[2] - factor * upper[2], jnp.zeros_like(pivot))
    return (remaining, lower_rhs - factor[..., None] * upper_rhs), ((upper[0], upper[1], upper[2]), upper_rhs)


def _substitute(known: tuple[jax.Array, jax.Array], xs: tuple[jax.Array, ...]) -> Any:
    next_one, next_two = known
    pivot, one, two, rhs = xs
    x = quotient(rhs - one[..., None] * next_one - two[..., None] * next_two, pivot[..., None])
    return (x, next_one), x


def _smallest_pivot(dl: jax.Array, d: jax.Array, du: jax.Array) -> jax.Array:
    """What a vanishing pivot is replaced by: the rounding error of the largest entry, or the smallest normal number."""
    largest = jnp.max(jnp.maximum(magnitude(d), jnp.maximum(magnitude(dl), magnitude(du))), axis=-1)
    return jnp.maximum(largest * machine_epsilon(d), float(jnp.finfo(d.dtype).tiny))


def _perturbed(pivot: jax.Array, tiny: jax.Array) -> jax.Array:
    return jnp.where(magnitude(pivot) < tiny, jnp.copysign(tiny, pivot.real).astype(pivot.dtype), pivot)
