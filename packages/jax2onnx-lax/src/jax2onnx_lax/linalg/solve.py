"""Linear systems: tridiagonal ones, and `custom_linear_solve`, which brings its own solver."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jax import lax
from jax2onnx_core import Context, Jaxpr, Rules, Value

from jax2onnx_lax.linalg._matrix import machine_epsilon, magnitude, nan_unless, quotient, stacked
from jax2onnx_lax.linalg._sizes import never_empty

__all__ = ["custom_linear_solve", "rules", "tridiagonal_solve"]

rules = Rules()

# The entries of a row on the diagonal and in the two places right of it.
_Row = tuple[jax.Array, jax.Array, jax.Array]
_Pair = tuple[jax.Array, jax.Array]
# A row and its right-hand side `[..., k]`.
_Equation = tuple[_Row, jax.Array]


@rules.lower("custom_linear_solve", physical=True)
def custom_linear_solve(
    ctx: Context, *operands: Value, const_lengths: tuple[int, ...], jaxprs: tuple[Jaxpr, ...]
) -> Sequence[Value]:
    """The function `solve` applied to the right-hand sides.

    Both parameters, and the constants at the beginning of the operands, are in the order matvec, vecmat, solve,
    transpose_solve; all functions but `solve` serve derivatives.
    """
    matvec, vecmat, solve, _ = const_lengths
    constants = operands[matvec + vecmat : matvec + vecmat + solve]
    return ctx.inline(jaxprs[2], *constants, *operands[sum(const_lengths) :])


@rules.decompose("tridiagonal_solve")
@never_empty("tridiagonal_solve")
def tridiagonal_solve(
    dl: jax.Array, d: jax.Array, du: jax.Array, b: jax.Array, *, perturb_singular: bool = False
) -> jax.Array:
    """`x` `[..., n, k]` with A x = b for A of sub-, main and superdiagonal `dl`, `d`, `du` `[..., n]`.

    Gaussian elimination with partial pivoting, as LAPACK's `gtsv`: a swap fills in a second
    superdiagonal. A singular A gives NaN, unless `perturb_singular` replaces vanishing pivots.
    """
    if 0 in b.shape:
        return b
    dl, du = dl.at[..., 0].set(0), du.at[..., -1].set(0)
    tiny = _smallest_pivot(dl, d, du) if perturb_singular else None
    diagonals, rhs = [jnp.moveaxis(x, -1, 0) for x in (dl, d, du)], jnp.moveaxis(b, -2, 0)
    first = ((diagonals[1][0], diagonals[2][0], jnp.zeros_like(d[..., 0])), rhs[0])

    def step(state: _Equation, xs: tuple[jax.Array, ...]) -> tuple[_Equation, _Equation]:
        return _eliminate(state, xs, tiny)

    last, eliminated = lax.scan(step, first, (*(x[1:] for x in diagonals), rhs[1:]))
    (pivots, one, two), rhs = jax.tree.map(lambda x, y: jnp.concatenate([x, y[None]]), eliminated, last)
    if tiny is not None:
        pivots = _perturbed(pivots, tiny)
    zero = jnp.zeros_like(rhs[0])
    _, x = lax.scan(_substitute, (zero, zero), (pivots, one, two, rhs), reverse=True)
    return nan_unless(jnp.all(pivots != 0, axis=0), stacked(x, -2))


def _eliminate(state: _Equation, xs: tuple[jax.Array, ...], tiny: jax.Array | None) -> tuple[_Equation, _Equation]:
    """Eliminate the entry below the pivot of the current row, after swapping if that entry is the larger one.

    `xs` is the next row of A (its entries below, on and right of the diagonal) and its right-hand side. Returns the
    remaining row, which is the next current one, and the finished row.
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


def _substitute(known: _Pair, xs: tuple[jax.Array, ...]) -> tuple[_Pair, jax.Array]:
    """One step of back substitution; `known` are the next two rows of the solution."""
    next_one, next_two = known
    pivot, one, two, rhs = xs
    x = quotient(rhs - one[..., None] * next_one - two[..., None] * next_two, pivot[..., None])
    return (x, next_one), x


def _smallest_pivot(dl: jax.Array, d: jax.Array, du: jax.Array) -> jax.Array:
    """The replacement of a vanishing pivot: the rounding error of the largest entry, or the smallest normal number."""
    largest = jnp.max(jnp.maximum(magnitude(d), jnp.maximum(magnitude(dl), magnitude(du))), axis=-1)
    return jnp.maximum(largest * machine_epsilon(d), float(jnp.finfo(d.dtype).tiny))


def _perturbed(pivot: jax.Array, tiny: jax.Array) -> jax.Array:
    """The pivot, or `tiny` with its sign where it is smaller than that."""
    return jnp.where(magnitude(pivot) < tiny, jnp.copysign(tiny, pivot.real).astype(pivot.dtype), pivot)
