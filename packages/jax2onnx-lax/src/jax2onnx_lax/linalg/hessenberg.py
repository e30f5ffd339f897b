"""Reduction by orthogonal similarity: to Hessenberg form, and of Hermitian matrices to tridiagonal form."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax
from jax2onnx_core import Rules
from jax2onnx_graph.arrays import Array

from jax2onnx_lax.linalg._matrix import at, diagonal, max_dim, positions, resized, stacked
from jax2onnx_lax.linalg._sizes import never_empty
from jax2onnx_lax.linalg.eigh import hermitian_from_triangle
from jax2onnx_lax.linalg.householder import apply_left, apply_right, reflector

__all__ = ["hessenberg", "hessenberg_mask", "reduce_to_hessenberg", "rules", "tridiagonal"]

rules = Rules()


def reduce_to_hessenberg(a: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """`(v, taus, h)`: h = Qᴴ a Q upper Hessenberg, Q the product of the n - 1 reflectors in the columns of `v`.

    Where n may be 1 there is one reflector all the same, which is the identity then. Golub & Van Loan, Matrix Computations, 4th ed., §7.4.3; below the subdiagonal of `h` stand rounding errors.
    """

    def step(h: jax.Array, k: jax.Array) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
        v, tau, _ = reflector(at(h, k, -1), k + 1)
        return apply_right(v, tau, apply_left(v, jnp.conj(tau), h)), (v, tau)

    h, (vectors, taus) = lax.scan(step, a, positions(max_dim(a.shape[-1] - 1, 1)))
    return stacked(vectors, -1), stacked(taus, -1), h


def hessenberg_mask(size: int) -> jax.Array | Array:
    """bool `[size, size]`: True on and above the subdiagonal."""
    return positions(size)[:, None] <= positions(size)[None, :] + 1


@rules.decompose("hessenberg")
@never_empty("hessenberg")
def hessenberg(a: jax.Array) -> tuple[jax.Array, jax.Array]:
    """`(packed, taus)` as LAPACK's `gehrd`: H on and above the subdiagonal, the reflectors below it."""
    size = a.shape[-1]
    if 0 in a.shape or size == 1:
        return a, jnp.zeros((*a.shape[:-2], size - 1), a.dtype)
    v, taus, h = reduce_to_hessenberg(a)
    return jnp.where(hessenberg_mask(size), h, resized(v, -1, size)), resized(taus, -1, size - 1)


@rules.decompose("tridiagonal")
@never_empty("tridiagonal")
def tridiagonal(a: jax.Array, *, lower: bool) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """`(packed, d, e, taus)` as LAPACK's `sytrd`/`hetrd`, which read and write one triangle of `a`.

    The upper form is the lower one of the matrix with rows and columns in reverse.
    """
    if lower:
        return _lower_tridiagonal(a)
    packed, d, e, taus = _lower_tridiagonal(jnp.flip(a, (-1, -2)))
    return jnp.flip(packed, (-1, -2)), jnp.flip(d, -1), jnp.flip(e, -1), jnp.flip(taus, -1)


def _lower_tridiagonal(a: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """`tridiagonal` of the lower triangle."""
    *batch, size, _ = a.shape
    a = hermitian_from_triangle(a, lower=True) if size == 1 else a
    if 0 in a.shape or size == 1:
        none = jnp.zeros((*batch, size - 1), a.dtype)
        return a, diagonal(a).real, none.real, none
    v, taus, h = reduce_to_hessenberg(hermitian_from_triangle(a, lower=True))
    d, e = diagonal(h).real, diagonal(h[..., 1:, :-1]).real
    rows, columns = positions(size)[:, None], positions(size)[None, :]
    packed = jnp.where(hessenberg_mask(size), h.real.astype(a.dtype), resized(v, -1, size))
    return jnp.where(rows < columns, a, packed), d, e, resized(taus, -1, size - 1)
