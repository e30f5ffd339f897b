"""Eigenvalues and eigenvectors of Hermitian matrices."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax2onnx_core import Rules

from jax2onnx_lax.linalg._jacobi import orthogonalize_rows, squared_norms
from jax2onnx_lax.linalg._matrix import (
    adjoint,
    divided,
    eye_like,
    is_complex,
    magnitude,
    matrix_scale,
    nan_unless,
    permute,
    strictly_lower,
)
from jax2onnx_lax.linalg._sizes import never_empty

__all__ = ["eigh", "hermitian_from_triangle", "rules"]

rules = Rules()


@rules.decompose("eigh")
@never_empty("eigh")
def eigh(
    a: jax.Array, *, lower: bool, sort_eigenvalues: bool, subset_by_index: tuple[int, int] | None, **_: object
) -> tuple[jax.Array, jax.Array]:
    """`(v, w)` of Hermitian `a` `[..., n, n]`, of which one triangle is read: eigenvectors in columns, ascending w.

    `a` + shift with a shift just above the spectral radius is positive definite and well conditioned, so
    that the singular vectors which one-sided Jacobi finds are the eigenvectors; the eigenvalues are
    their Rayleigh quotients with `a` itself. `sort_eigenvalues` is ignored, as on CPU: they are sorted.
    """
    del sort_eigenvalues
    first, last = (0, a.shape[-1]) if subset_by_index is None else subset_by_index
    if 0 in a.shape:
        return a[..., first:last], jnp.zeros(a.shape[:-1], a.real.dtype)[..., first:last]
    a = hermitian_from_triangle(a, lower=lower)
    scale = matrix_scale(a)
    v, w = _eigenpairs(divided(a, scale))
    order = jnp.argsort(w, axis=-1)
    ok = jnp.isfinite(w).all(-1) & jnp.isfinite(magnitude(a)).all((-1, -2))
    w, v = permute(w * scale[..., 0], order, -1), permute(v, order, -1)
    return nan_unless(ok, v[..., first:last]), nan_unless(ok, w[..., first:last])


def hermitian_from_triangle(a: jax.Array, *, lower: bool) -> jax.Array:
    """The Hermitian matrix whose lower (upper) triangle stands in `a`; imaginary parts on the diagonal are dropped."""
    size = a.shape[-1]
    below = strictly_lower(size, size)
    mirrored = jnp.where(below if lower else below.T, a, adjoint(a))
    diagonal = eye_like(a, size, size) != 0
    return jnp.where(diagonal, a.real.astype(a.dtype) if is_complex(a) else a, mirrored)


def _eigenpairs(a: jax.Array) -> tuple[jax.Array, jax.Array]:
    """`(v, w)` of Hermitian `a` `[..., n, n]` of entries up to 1: as `eigh`, in no particular order."""
    size = a.shape[-1]
    # Both are upper bounds of the spectral radius.
    bound = jnp.minimum(jnp.abs(a).sum(-1).max(-1), jnp.sqrt(squared_norms(a).sum(-1)))
    shift = jnp.where(bound > 0, 1.125 * bound, 1)[..., None, None]
    rows = orthogonalize_rows(a + shift.astype(a.dtype) * eye_like(a, size, size), size)
    v = adjoint(divided(rows, jnp.sqrt(squared_norms(rows))[..., None]))
    return v, (jnp.conj(v) * jnp.matmul(a, v)).real.sum(-2)
