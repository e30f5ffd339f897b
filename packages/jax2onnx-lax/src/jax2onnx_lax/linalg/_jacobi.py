"""One-sided Jacobi: rotate pairs of rows until all rows are orthogonal.

`eigh` and `svd` are built on it. All ⌊n/2⌋ disjoint pairs of a round are rotated at once, so that a sweep
over all pairs is n - 1 rounds of a few matrix-level operations each, whatever the batch.

Sources: Golub & Van Loan, Matrix Computations, 4th ed., §8.6.3 (one-sided rotations, after Hestenes);
Brent & Luk, "The solution of singular-value and symmetric eigenvalue problems on multiprocessor
arrays" (1985) for the order of the pairs.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax

from jax2onnx_lax.linalg._matrix import divided, is_complex, machine_epsilon, positions, scaled

__all__ = ["orthogonalize_rows", "squared_norms"]

# LAPACK's gesvj allows as many; eight are usual.
_MAX_SWEEPS = 30

_Pair = tuple[jax.Array, jax.Array]
_State = tuple[jax.Array, jax.Array, jax.Array]


def squared_norms(rows: jax.Array) -> jax.Array:
    """Sum of |x|² along the last axis."""
    return (rows.real * rows.real + rows.imag * rows.imag if is_complex(rows) else rows * rows).sum(-1)


def orthogonalize_rows(rows: jax.Array, length: int) -> jax.Array:
    """`J rows` for a unitary J that makes the rows orthogonal in their first `length` entries.

    `rows` is `[..., n, w]`. Entries beyond `length` are rotated with the others but have no influence on the angles:
    the identity appended there becomes J. Rows are orthogonal to sqrt(length) units of least precision, as in
    LAPACK's `gesvj`.
    """
    count = rows.shape[-2]
    half = (count + 1) // 2
    # A row of zeros makes the number even; it is orthogonal to all others, so that it is never rotated.
    rows = lax.pad(rows, jnp.zeros((), rows.dtype), _pad_rows(rows.ndim, 2 * half - count))
    order = _next_round(half)
    tolerance = machine_epsilon(rows) * jnp.sqrt(jnp.asarray(length, rows.real.dtype))
    # Convergence is quadratic in the angles: after a sweep of such small ones another would find nothing to do.
    settled = 0.3 * machine_epsilon(rows) ** 0.5

    def rotate(_: jax.Array, state: _Pair) -> _Pair:
        rows, worst = state
        rows, sine = _rotate_pairs(rows, half, length, tolerance)
        return jnp.take(rows, order, axis=-2, mode="clip"), jnp.maximum(worst, jnp.max(jnp.abs(sine)))

    def sweep(state: _State) -> _State:
        rows, _, sweeps = state
        rows, worst = lax.fori_loop(0, 2 * half - 1, rotate, (rows, jnp.zeros_like(tolerance)))
        return rows, worst, sweeps + 1

    def unfinished(state: _State) -> jax.Array:
        _, worst, sweeps = state
        return (worst > settled) & (sweeps < _MAX_SWEEPS)

    start = (rows, jnp.full_like(tolerance, jnp.inf), jnp.zeros((), jnp.int32))
    return lax.while_loop(unfinished, sweep, start)[0][..., :count, :]


def _pad_rows(ndim: int, amount: int) -> list[tuple[int, int, int]]:
    return [(0, 0, 0)] * (ndim - 2) + [(0, amount, 0), (0, 0, 0)]


def _rotate_pairs(rows: jax.Array, half: int, length: int, tolerance: jax.Array) -> _Pair:
    """The rows after rotating row i against row i + half, for all i, and the sines of the angles `[..., half]`."""
    squares = squared_norms(rows[..., :length])
    upper, lower = rows[..., :half, :], rows[..., half:, :]
    alpha, beta = squares[..., :half], squares[..., half:]
    inner = (jnp.conj(upper[..., :length]) * lower[..., :length]).sum(-1)
    size = jnp.abs(inner)
    # Norms, not their squares, in the product: it must not underflow.
    norms = jnp.sqrt(alpha) * jnp.sqrt(beta)
    turn = size > tolerance * norms
    c, s = _rotation(alpha, beta, jnp.where(turn, size, 1))
    c, s = jnp.where(turn, c, 1), jnp.where(turn, s, 0)
    # The lower row loses its phase, so that a real rotation remains.
    phase = divided(jnp.where(turn, inner, 1), jnp.where(turn, size, 1))
    lower = jnp.conj(phase)[..., None] * lower
    cosines, sines = c[..., None], s[..., None]
    turned = (scaled(upper, cosines) - scaled(lower, sines), scaled(upper, sines) + scaled(lower, cosines))
    return jnp.concatenate(turned, axis=-2), s


def _rotation(alpha: jax.Array, beta: jax.Array, inner: jax.Array) -> _Pair:
    """Cosine and sine of the smaller angle that makes rows of squared norms alpha, beta orthogonal."""
    zeta = (beta - alpha) / (2 * inner)
    tangent = jnp.copysign(1, zeta) / (jnp.abs(zeta) + jnp.sqrt(1 + zeta * zeta))
    cosine = 1 / jnp.sqrt(1 + tangent * tangent)
    return cosine, cosine * tangent


def _next_round(half: int) -> jax.Array:
    """The permutation of the rows from one round to the next: the circle method of round-robin tournaments.

    Seats 0 … half - 1 and half … 2 half - 1 are the two sides of a table, seat i opposite half + i. All but the row
    in seat 0 move on by one seat around the table; after 2 half - 1 rounds every two have been opposite each other
    once, and all are in their first seats again.
    """
    seat = positions(2 * half)
    order = jnp.where(seat < half, seat - 1, seat + 1)
    order = jnp.where(seat == 2 * half - 1, half - 1, order)
    order = jnp.where(seat == 1, half, order)
    return jnp.where(seat == 0, 0, order)
