"""Schur form by the shifted QR algorithm: upper triangular, for real matrices with 2 × 2 blocks.

Source: Golub & Van Loan, Matrix Computations, 4th ed., §7.5 (Francis's implicit double shift, deflation);
Anderson et al., LAPACK Users' Guide, routines `lahqr` (exceptional shifts) and `lanv2` (standard form of blocks).

All matrices of a batch go through the same iterations; each has its own active block, and a reflector with tau = 0
leaves a matrix unchanged where a step is not for it.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax2onnx_core import Rules
from jax2onnx_core.jax_types import Function

from jax2onnx_lax.linalg._blocks import standardize_blocks
from jax2onnx_lax.linalg._matrix import (
    at,
    diagonal,
    divided,
    eye_like,
    is_complex,
    machine_epsilon,
    magnitude,
    matrix_scale,
    nan_unless,
    positions,
    quotient,
    scaled,
    strictly_lower,
    take,
)
from jax2onnx_lax.linalg._sizes import never_empty
from jax2onnx_lax.linalg.hessenberg import hessenberg_mask, reduce_to_hessenberg
from jax2onnx_lax.linalg.householder import apply_left, apply_right, reflect, reflector

__all__ = ["rules", "schur", "schur_form"]

rules = Rules()

# As in lahqr: this many iterations per eigenvalue, an unusual shift after each ten without success.
_ITERATIONS_PER_EIGENVALUE = 30
_PATIENCE = 10


@rules.decompose("schur")
@never_empty("schur")
def schur(
    a: jax.Array, *, compute_schur_vectors: bool, sort_eig_vals: bool, select_callable: Function | None
) -> tuple[jax.Array, ...]:
    """`(t, q)` or `(t,)` with a = q t qᴴ for `a` `[..., n, n]`; NaN where the iteration does not converge.

    Raises:
      NotImplementedError: with `sort_eig_vals`.
    """
    del select_callable
    if sort_eig_vals:
        raise NotImplementedError("schur: sort_eig_vals=True is not implemented; JAX has no kernel for it either")
    if 0 in a.shape:
        return (a, a) if compute_schur_vectors else (a,)
    if a.shape[-1] == 1:
        t, q, ok = schur_form(a)
    else:
        scale = _scale(a)
        t, q, ok = schur_form(divided(a, scale))
        t = scaled(t, scale)
    t = nan_unless(ok, t)
    return (t, nan_unless(ok, q)) if compute_schur_vectors else (t,)


def _scale(a: jax.Array) -> jax.Array:
    """That of `matrix_scale` if products of entries could overflow or vanish, else 1; as LAPACK's `gees`."""
    scale, limits = matrix_scale(a), jnp.finfo(a.dtype)
    small, large = (float(limit) ** 0.25 for limit in (limits.tiny, limits.max))
    return jnp.where((scale < small) | (scale > large), scale, 1)


def schur_form(a: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """`(t, q, ok)` with a = q t qᴴ; `ok` `[...]` is false where the iteration does not converge.

    The 2 × 2 blocks of a real t have equal diagonal entries, and off-diagonal entries of opposite sign.
    """
    size = a.shape[-1]
    finite = jnp.isfinite(magnitude(a)).all((-1, -2))
    identity = jnp.broadcast_to(eye_like(a, size, size), a.shape)
    if size == 1:
        return a, identity, finite
    # A matrix that is not finite never converges: zeros in its place end at once.
    v, taus, h = reduce_to_hessenberg(jnp.where(finite[..., None, None], a, 0))
    h, q = jnp.where(hessenberg_mask(size), h, 0), reflect(v, taus, identity)
    start = _State(h, q, jnp.full(a.shape[:-2], size - 1, jnp.int32), jnp.zeros(a.shape[:-2], jnp.int32), jnp.int32(0))
    state = lax.while_loop(_unfinished, _iterate, start)
    ok = finite & (state.last <= 0)
    if is_complex(a):
        return jnp.where(strictly_lower(size, size), 0, state.h), state.q, ok
    t, q = standardize_blocks(state.h, state.q)
    return t, q, ok


class _State(NamedTuple):
    """The state of the iteration: a = q h qᴴ.

    Rows of `h` after row `last` `[...]` are finished; `waiting` `[...]` counts the iterations since the last one was.
    """

    h: jax.Array
    q: jax.Array
    last: jax.Array
    waiting: jax.Array
    iterations: jax.Array


def _unfinished(state: _State) -> jax.Array:
    limit = _ITERATIONS_PER_EIGENVALUE * jnp.maximum(10, jnp.asarray(state.h.shape[-1], jnp.int32))
    return jnp.any(state.last > 0) & (state.iterations < limit)


def _iterate(state: _State) -> _State:
    """Find the last block that is not finished; finish it if it is small enough, else do one QR sweep over it."""
    h, negligible = _deflate(state.h)
    here = positions(h.shape[-1])
    last = state.last
    first = jnp.max(jnp.where(negligible & (here <= last[..., None]), here, 0), axis=-1)
    largest_block = 1 if is_complex(h) else 2
    working = (last - first >= largest_block) & (last > 0)
    vector = (_single_shift if is_complex(h) else _double_shift)(h, first, last, state.waiting)
    h, q = _sweep(h, state.q, vector, first, last, working)
    return _State(
        h=h,
        q=q,
        last=jnp.where(working, last, first - 1),
        waiting=jnp.where(working, state.waiting + 1, 0),
        iterations=state.iterations + 1,
    )


def _deflate(h: jax.Array) -> tuple[jax.Array, jax.Array]:
    """`h` with negligible subdiagonal entries set to zero, and bool `[..., n]`: in which rows (true for row 0)."""
    size = h.shape[-1]
    rows, columns = positions(size)[:, None], positions(size)[None, :]
    below = rows == columns + 1
    sizes, subdiagonal = magnitude(diagonal(h)), jnp.where(below, magnitude(h), 0).sum(-1)
    previous = jnp.concatenate([sizes[..., :1], sizes[..., :-1]], axis=-1)
    neighbours = sizes + previous
    neighbours = jnp.where(neighbours == 0, magnitude(h).max((-1, -2))[..., None], neighbours)
    negligible = subdiagonal <= machine_epsilon(h) * neighbours
    return jnp.where(below & negligible[..., None], 0, h), negligible | (positions(size) == 0)


def _entry(h: jax.Array, row: jax.Array, column: jax.Array) -> jax.Array:
    """`h[row, column]` of each matrix, at least index 0."""
    return take(take(h, jnp.maximum(row, 0), -2), jnp.maximum(column, 0), -1)


def _placed(size: int, first: jax.Array, *entries: jax.Array) -> jax.Array:
    """A vector `[..., size]` with `entries` from position `first` on."""
    here = positions(size)
    vector = jnp.zeros((*first.shape, size), entries[0].dtype)
    for offset, entry in enumerate(entries):
        vector = jnp.where(here == first[..., None] + offset, entry[..., None], vector)
    return vector


def _corner(h: jax.Array, last: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """The entries of the active block's last 2 × 2 corner."""
    upper, lower = take(h, jnp.maximum(last - 1, 0), -2), take(h, jnp.maximum(last, 0), -2)
    left, right = jnp.maximum(last - 1, 0), jnp.maximum(last, 0)
    return take(upper, left, -1), take(upper, right, -1), take(lower, left, -1), take(lower, right, -1)


def _single_shift(h: jax.Array, first: jax.Array, last: jax.Array, waiting: jax.Array) -> jax.Array:
    """First column of H - shift, by Wilkinson's shift: the eigenvalue of the last corner nearest to its last entry."""
    a, b, c, d = _corner(h, last)
    half = (a - d) / 2
    root = jnp.sqrt(half * half + b * c)
    root = jnp.where((jnp.conj(half) * root).real < 0, -root, root)
    away = half + root
    shift = d - jnp.where(away == 0, 0, quotient(b * c, jnp.where(away == 0, 1, away)))
    unusual = (waiting % _PATIENCE == _PATIENCE - 1) & (waiting > 0)
    shift = jnp.where(unusual, d + (0.75 * magnitude(c)).astype(h.dtype), shift)
    return _placed(h.shape[-1], first, _entry(h, first, first) - shift, _entry_below(h, first))


def _double_shift(h: jax.Array, first: jax.Array, last: jax.Array, waiting: jax.Array) -> jax.Array:
    """First column of (H - σ₁)(H - σ₂), where σ are the eigenvalues of the last corner, or twice the nearer real one."""
    a, b, c, d = _corner(h, last)
    half = (a - d) / 2
    discriminant = half * half + b * c
    away = half + jnp.copysign(jnp.sqrt(jnp.maximum(discriminant, 0)), half)
    nearer = d - jnp.where(away == 0, 0, quotient(b * c, jnp.where(away == 0, 1, away)))
    total = jnp.where(discriminant >= 0, 2 * nearer, a + d)
    product = jnp.where(discriminant >= 0, nearer * nearer, a * d - b * c)
    spread = jnp.abs(c) + jnp.abs(_entry(h, last - 1, last - 2))
    unusual = (waiting % _PATIENCE == _PATIENCE - 1) & (waiting > 0)
    centre = 0.75 * spread + d
    total = jnp.where(unusual, 2 * centre, total)
    product = jnp.where(unusual, centre * centre + 0.4375 * spread * spread, product)
    x, y = _entry(h, first, first), _entry_below(h, first)
    next_x = _entry(h, jnp.minimum(first + 1, h.shape[-1] - 1), jnp.minimum(first + 1, h.shape[-1] - 1))
    upper = _entry(h, first, jnp.minimum(first + 1, h.shape[-1] - 1))
    third = y * _entry_below(h, jnp.minimum(first + 1, h.shape[-1] - 1))
    return _placed(h.shape[-1], first, x * x + upper * y - total * x + product, y * (x + next_x - total), third)


def _entry_below(h: jax.Array, k: jax.Array) -> jax.Array:
    """The subdiagonal entry in column `k` of each matrix."""
    return _entry(h, jnp.minimum(k + 1, h.shape[-1] - 1), k)


def _sweep(
    h: jax.Array, q: jax.Array, vector: jax.Array, first: jax.Array, last: jax.Array, working: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Make `vector` the first column of a similarity transformation and chase the bulge down the active block."""
    size = h.shape[-1]
    here = positions(size)
    width = 2 if is_complex(h) else 3

    def chase(k: jax.Array, state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        h, q = state
        column = jnp.where((k == first)[..., None], vector, at(h, jnp.maximum(k - 1, 0), -1))
        column = jnp.where((here < k + width) & (here <= last[..., None]), column, 0)
        v, tau, _ = reflector(column, k)
        tau = jnp.where(working & (first <= k) & (k < last), tau, 0)
        h = apply_right(v, tau, apply_left(v, jnp.conj(tau), h))
        return h, apply_right(v, tau, q)

    start = jnp.min(jnp.where(working, first, size))
    end = jnp.max(jnp.where(working, last, 0))
    h, q = lax.fori_loop(start, end, chase, (h, q))
    return jnp.where(hessenberg_mask(size), h, 0), q
