"""Singular values and vectors."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax2onnx_core import Rules
from jax2onnx_core.jaxprs import definitely_le

from jax2onnx_lax.linalg._jacobi import orthogonalize_rows, squared_norms
from jax2onnx_lax.linalg._matrix import (
    adjoint,
    diagonal,
    divided,
    eye_like,
    magnitude,
    matrix_scale,
    max_dim,
    min_dim,
    nan_unless,
    permute,
    positions,
    resized,
)
from jax2onnx_lax.linalg._sizes import never_empty
from jax2onnx_lax.linalg.householder import reflect
from jax2onnx_lax.linalg.qr import reduce_pivoting, thin_qr

__all__ = ["rules", "svd"]

rules = Rules()


@rules.decompose("svd")
@never_empty("svd")
def svd(
    a: jax.Array,
    *,
    full_matrices: bool,
    compute_uv: bool,
    subset_by_index: tuple[int, int] | None = None,
    **_: object,
) -> tuple[jax.Array, ...]:
    """`(s,)`, or with `compute_uv` `(s, u, vh)`, of `a` `[..., m, n]`; s descends.

    A matrix with more columns than rows is factored through its adjoint; where the model's input decides which there
    are more of, rows of zeros are appended, to which no singular value but zero belongs. A matrix that is not finite
    gives NaN throughout.
    """
    m, n = a.shape[-2:]
    first, last = (0, min_dim(m, n)) if subset_by_index is None else subset_by_index
    if definitely_le(n, m):
        s, *uv = _tall_svd(a, full_matrices=full_matrices, compute_uv=compute_uv)
    elif definitely_le(m, n):
        s, *uv = _tall_svd(adjoint(a), full_matrices=full_matrices, compute_uv=compute_uv)
        uv = [adjoint(x) for x in reversed(uv)]
    else:
        s, *uv = _undecided_svd(a, full_matrices=full_matrices, compute_uv=compute_uv)
    s = s[..., first:last]
    if not compute_uv:
        return (s,)
    u, vh = uv
    if full_matrices or subset_by_index is None:
        return s, u, vh
    return s, u[..., :, first:last], vh[..., first:last, :]


def _undecided_svd(a: jax.Array, *, full_matrices: bool, compute_uv: bool) -> tuple[jax.Array, ...]:
    """The results of `svd` for any m and n, by `_tall_svd` of the matrix with max(m, n) rows.

    The reflectors and the rotations leave the appended rows alone, and the stable order of the singular values puts
    theirs last, so that the first min(m, n) vectors on the left have no component there.
    """
    m, n = a.shape[-2:]
    rank = min_dim(m, n)
    s, *uv = _tall_svd(resized(a, -2, max_dim(m, n)), full_matrices=full_matrices, compute_uv=compute_uv)
    if not uv:
        return (resized(s, -1, rank),)
    u = resized(resized(uv[0], -2, m), -1, m if full_matrices else rank)
    return resized(s, -1, rank), u, uv[1] if full_matrices else resized(uv[1], -2, rank)


def _tall_svd(a: jax.Array, *, full_matrices: bool, compute_uv: bool) -> tuple[jax.Array, ...]:
    """The results of `svd` for m ≥ n and without a subset: a = Q R, R = Jᴴ Σ V, hence a = (Q Jᴴ) Σ V."""
    *batch, m, n = a.shape
    columns = m if full_matrices else n
    if 0 in a.shape:
        bases = [jnp.broadcast_to(eye_like(a, m, k), (*batch, m, k)) for m, k in ((m, columns), (n, n))]
        return (jnp.zeros((*batch, n), a.real.dtype), *bases)
    scale, ok = matrix_scale(a), jnp.isfinite(magnitude(a)).all((-1, -2))
    v, taus, r, order = reduce_pivoting(divided(a, scale))
    if not compute_uv:
        s = jnp.sqrt(squared_norms(orthogonalize_rows(r[..., :n, :], n)))
        return (nan_unless(ok, jnp.flip(jnp.sort(s * scale[..., 0], axis=-1), -1)),)
    s, left, right = _triangular_svd(r[..., :n, :])
    u = reflect(v, taus, _block_diagonal(left, m, columns))
    right = permute(right, jnp.argsort(order, axis=-1), -1)
    return nan_unless(ok, s * scale[..., 0]), nan_unless(ok, u), nan_unless(ok, right)


def _triangular_svd(r: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """`(s, left, right)` with r = left Σ right, for `r` `[..., n, n]`.

    The QR of the orthogonal rows replaces a division by the singular values: it gives orthonormal
    vectors for those that are zero, too.
    """
    size = r.shape[-1]
    identity = jnp.broadcast_to(eye_like(r, size, size), r.shape)
    rows = orthogonalize_rows(jnp.concatenate([r, identity], axis=-1), size)
    s = jnp.sqrt(squared_norms(rows[..., :size]))
    order = jnp.argsort(-s, axis=-1)
    s, rows = permute(s, order, -1), permute(rows, order, -2)
    q, triangle = thin_qr(adjoint(rows[..., :size]))
    pivots = diagonal(triangle)
    phases = jnp.where(pivots == 0, 1, divided(pivots, jnp.where(pivots == 0, 1, jnp.abs(pivots))))
    return s, adjoint(rows[..., size:]), adjoint(q * phases[..., None, :])


def _block_diagonal(block: jax.Array, rows: int, columns: int) -> jax.Array:
    """`block` `[..., n, n]` in the corner of an identity of `rows` × `columns`."""
    size = block.shape[-1]
    corner = resized(resized(block, -2, rows), -1, columns)
    return jnp.where(positions(rows)[:, None] < size, corner, eye_like(block, rows, columns))
