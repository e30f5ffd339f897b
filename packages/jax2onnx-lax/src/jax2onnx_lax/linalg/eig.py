"""Eigenvalues and eigenvectors of general matrices."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax
from jax2onnx_core import Rules

from jax2onnx_lax.linalg._blocks import quasi_eigenvalues, triangularize_blocks
from jax2onnx_lax.linalg._jacobi import squared_norms
from jax2onnx_lax.linalg._matrix import (
    adjoint,
    at,
    diagonal,
    divided,
    is_complex,
    machine_epsilon,
    magnitude,
    matrix_scale,
    nan_unless,
    positions,
    quotient,
    scaled,
    take,
)
from jax2onnx_lax.linalg._sizes import never_empty
from jax2onnx_lax.linalg.schur import schur_form

__all__ = ["eig", "rules"]

rules = Rules()


@rules.decompose("eig")
@never_empty("eig")
def eig(
    a: jax.Array, *, compute_left_eigenvectors: bool, compute_right_eigenvectors: bool, **_: object
) -> tuple[jax.Array, ...]:
    """`(w, vl, vr)`: eigenvalues `[..., n]`, and the left and right eigenvectors `[..., n, n]` that are asked for.

    All are complex, in no particular order: vlᴴ a = w vlᴴ and a vr = w vr. Vectors are columns of unit length with a
    real largest component, as LAPACK's `geev` makes them. A matrix that is not finite, or for which the iteration does
    not converge, gives NaN.
    """
    vectors = compute_left_eigenvectors + compute_right_eigenvectors
    if 0 in a.shape:
        dtype = jnp.result_type(a.dtype, jnp.complex64)
        return (jnp.zeros(a.shape[:-1], dtype), *[jnp.zeros(a.shape, dtype)] * vectors)
    scale = matrix_scale(a)
    t, q, ok = schur_form(divided(a, scale))
    real = not is_complex(a)
    w = quasi_eigenvalues(t) if real else diagonal(t)
    results = [scaled(w, scale[..., 0])]
    if vectors and real:
        t, q = triangularize_blocks(t, q)
    if compute_left_eigenvectors:
        # They are the right eigenvectors of tᴴ, which is upper triangular after reversing both axes.
        reversed_t = jnp.flip(adjoint(t), (-1, -2))
        found = jnp.flip(_triangular_eigenvectors(reversed_t, jnp.conj(jnp.flip(w, -1))), (-1, -2))
        results.append(_normalized(jnp.matmul(q, found), w, real=real))
    if compute_right_eigenvectors:
        results.append(_normalized(jnp.matmul(q, _triangular_eigenvectors(t, w)), w, real=real))
    return tuple(nan_unless(ok, x) for x in results)


def _triangular_eigenvectors(t: jax.Array, w: jax.Array) -> jax.Array:
    """Columns x_k with (t - w_k) x_k = 0, for upper triangular `t` with diagonal `w`, by back substitution.

    All columns at once, row by row; equal eigenvalues count as differing by a rounding error, and a column is scaled
    down as soon as it grows (LAPACK's `trevc`).
    """
    size = t.shape[-1]
    here = positions(size)
    real_dtype = t.real.dtype
    smallest = jnp.maximum(machine_epsilon(t) * magnitude(t).max((-1, -2)), float(jnp.finfo(real_dtype).tiny))

    def step(x: jax.Array, xs: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, None]:
        i, row = xs
        row = jnp.where(here > i, row, 0)
        gap = at(w, i, -1)[..., None] - w
        gap = jnp.where(magnitude(gap) < smallest[..., None], smallest[..., None].astype(gap.dtype), gap)
        entry = -quotient(jnp.matmul(row[..., None, :], x)[..., 0, :], gap)
        entry = jnp.where(here > i, entry, jnp.where(here == i, 1, 0).astype(entry.dtype))
        growth = jnp.maximum(jnp.abs(entry), 1)[..., None, :]
        return divided(jnp.where((here == i)[:, None], entry[..., None, :], x), growth), None

    return lax.scan(step, jnp.zeros_like(t), (here, jnp.moveaxis(t, -2, 0)), reverse=True)[0]


def _normalized(v: jax.Array, w: jax.Array, *, real: bool) -> jax.Array:
    """The columns of `v` with unit length and a real largest component; of a real matrix, real or conjugate pairs."""
    v = divided(v, jnp.sqrt(squared_norms(jnp.swapaxes(v, -1, -2)))[..., None, :])
    rows = jnp.swapaxes(v, -1, -2)
    largest = take(rows, jnp.argmax(jnp.abs(rows), axis=-1), -1)
    v = v * divided(jnp.conj(largest), jnp.abs(largest))[..., None, :]
    if not real:
        return v
    before = jnp.concatenate([v[..., :1], v[..., :-1]], axis=-1)
    imaginary = w.imag[..., None, :]
    v = jnp.where(imaginary < 0, jnp.conj(before), v)
    return jnp.where(imaginary == 0, lax.complex(v.real, jnp.zeros_like(v.real)), v)
