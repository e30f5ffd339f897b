"""Householder reflectors: making them, multiplying them out, applying them.

A reflector is I - tau v vᴴ with v[k] = 1 and v[i] = 0 for i < k, in LAPACK's convention (`larfg`).
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax2onnx_core import Rules

from jax2onnx_lax.linalg._matrix import (
    adjoint,
    at,
    divided,
    eye_like,
    is_complex,
    magnitude,
    positions,
    quotient,
    strictly_lower,
)
from jax2onnx_lax.linalg._sizes import never_empty
from jax2onnx_lax.linalg.triangular import solve_triangular

__all__ = ["apply_left", "apply_right", "householder_product", "ormqr", "reflect", "reflector", "rules"]

rules = Rules()


def reflector(column: jax.Array, k: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """`(v, tau, beta)` with (I - conj(tau) v vᴴ) `column` = beta at k and zero below; entries above k are ignored.

    `column` `[..., m]`, `k` a scalar; `v` `[..., m]`, `tau` and `beta` `[...]`. Golub & Van Loan, §5.1.3, scaled
    by the largest entry against overflow. beta is real, tau zero where there is nothing to annihilate.
    """
    rows = positions(column.shape[-1])
    head = at(column, k, -1)
    tail = jnp.where(rows > k, column, 0)
    scale = jnp.max(magnitude(jnp.where(rows >= k, column, 0)), axis=-1)
    scale = jnp.where(scale > 0, scale, 1)
    head, tail = divided(head, scale), divided(tail, scale[..., None])
    below = _squares(tail).sum(-1)
    beta = -jnp.copysign(jnp.sqrt(_squares(head) + below), head.real)
    nothing = (below == 0) & (head.imag == 0) if is_complex(column) else below == 0
    tau = jnp.where(nothing, 0, divided(beta - head, jnp.where(nothing, 1, beta)))
    v = jnp.where(nothing[..., None], 0, quotient(tail, jnp.where(nothing, 1, head - beta)[..., None]))
    v = jnp.where(rows == k, 1, v).astype(column.dtype)
    return v, tau.astype(column.dtype), jnp.where(nothing, head.real, beta) * scale


def _squares(x: jax.Array) -> jax.Array:
    """|x|², elementwise."""
    return x.real * x.real + x.imag * x.imag if is_complex(x) else x * x


def apply_left(v: jax.Array, factor: jax.Array, a: jax.Array) -> jax.Array:
    """Apply reflectors from the left: (I - factor v vᴴ) a.

    Args:
      v: the vectors v, [..., m].
      factor: the factors of the reflectors, [...].
      a: the matrices, [..., m, n].
    """
    projected = jnp.matmul(jnp.conj(v)[..., None, :], a)
    return a - (factor[..., None] * v)[..., :, None] * projected


def apply_right(v: jax.Array, factor: jax.Array, a: jax.Array) -> jax.Array:
    """Apply reflectors from the right: a (I - factor v vᴴ).

    Args:
      v: the vectors v, [..., m].
      factor: the factors of the reflectors, [...].
      a: the matrices, [..., n, m].
    """
    projected = jnp.matmul(a, v[..., :, None])
    return a - projected * (factor[..., None] * jnp.conj(v))[..., None, :]


def reflect(v: jax.Array, taus: jax.Array, c: jax.Array, *, transpose: bool = False) -> jax.Array:
    """Apply a product of reflectors from the left: Q c, or Qᴴ c, with Q = H₁ H₂ … H_k.

    In compact form Q = I - V T Vᴴ, where T = (I + D S)⁻¹ D with D = diag(tau) and S the strict upper
    triangle of Vᴴ V: Joffrain et al., "Accumulating Householder transformations, revisited" (2006). So one
    triangular solve replaces k rank-1 updates of `c`.

    Args:
      v: the vectors of the reflectors as columns, [..., m, k].
      taus: their factors, [..., k].
      c: the matrices, [..., m, n].
      transpose: whether Qᴴ is applied rather than Q.
    """
    size = v.shape[-1]
    overlaps = jnp.matmul(adjoint(v), v)
    upper = jnp.where(strictly_lower(size, size).T, taus[..., :, None] * overlaps, 0)
    projected = jnp.matmul(adjoint(v), c)
    if transpose:
        inner = solve_triangular(adjoint(upper), projected, lower=True, unit_diagonal=True)
        # (I + D S)⁻ᴴ comes first only if D stands on the left: Tᴴ = Dᴴ (I + D S)⁻ᴴ.
        return c - jnp.matmul(v, jnp.conj(taus)[..., :, None] * inner)
    inner = solve_triangular(upper, taus[..., :, None] * projected, lower=False, unit_diagonal=True)
    return c - jnp.matmul(v, inner)


def _vectors(a: jax.Array, count: int) -> jax.Array:
    """The reflectors' vectors that `geqrf` packs below the diagonal of `a`: `[..., m, count]`."""
    rows = a.shape[-2]
    return jnp.where(strictly_lower(rows, count), a[..., :, :count], eye_like(a, rows, count))


@rules.decompose("householder_product")
@never_empty("householder_product")
def householder_product(a: jax.Array, taus: jax.Array) -> jax.Array:
    """The first n columns of Q = H₁ … H_k for `a` `[..., m, n]`, `taus` `[..., k]` as `geqrf` returns them."""
    *batch, m, n = a.shape
    start = jnp.broadcast_to(eye_like(a, m, n), (*batch, m, n))
    if 0 in a.shape or 0 in taus.shape:
        return start
    return reflect(_vectors(a, taus.shape[-1]), taus, start)


@rules.decompose("ormqr")
@never_empty("ormqr")
def ormqr(a: jax.Array, taus: jax.Array, c: jax.Array, *, left: bool, transpose: bool) -> jax.Array:
    """Q c, Qᴴ c (`transpose`), c Q or c Qᴴ (not `left`), with Q as in `householder_product`."""
    if 0 in c.shape or 0 in taus.shape:
        return c
    v = _vectors(a, taus.shape[-1])
    if left:
        return reflect(v, taus, c, transpose=transpose)
    return adjoint(reflect(v, taus, adjoint(c), transpose=not transpose))
