"""Helpers of matrix factorizations: masks, single rows and columns, arithmetic by parts, NaN on failure.

Everything here takes matrices `[..., m, n]` with any number of batch dimensions, real or complex.
Sizes may be symbolic, though they are typed `int`, as JAX types shapes.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax2onnx_core.jaxprs import is_static
from jax2onnx_graph.arrays import Array

from jax2onnx_lax._compat import max_dim, min_dim

__all__ = [
    "adjoint",
    "at",
    "columns_first",
    "diagonal",
    "divided",
    "eye_like",
    "is_complex",
    "machine_epsilon",
    "magnitude",
    "matrix_scale",
    "max_dim",
    "min_dim",
    "nan_unless",
    "permute",
    "positions",
    "quotient",
    "resized",
    "scaled",
    "stacked",
    "strictly_lower",
    "take",
]

# Masks of matrices up to this size are constants of the model; of larger ones, computed in it.
_CONSTANT_SIZE = 64


def is_complex(x: jax.Array) -> bool:
    """Whether the element type of `x` is complex."""
    return bool(jnp.issubdtype(x.dtype, jnp.complexfloating))


def machine_epsilon(x: jax.Array) -> float:
    """The unit of least precision of (the components of) `x`, as a Python float."""
    return float(jnp.finfo(x.dtype).eps)


def adjoint(a: jax.Array) -> jax.Array:
    """The conjugate transpose of each matrix."""
    return jnp.conj(jnp.swapaxes(a, -1, -2))


def magnitude(x: jax.Array) -> jax.Array:
    """|re| + |im|, the cheap modulus by which LAPACK chooses pivots (`izamax`, `cabs1`)."""
    return jnp.abs(x.real) + jnp.abs(x.imag) if is_complex(x) else jnp.abs(x)


def scaled(x: jax.Array, factor: jax.Array) -> jax.Array:
    """`x * factor` for real `factor`: two products for a complex x where general multiplication takes four."""
    return lax.complex(x.real * factor, x.imag * factor) if is_complex(x) else x * factor


def matrix_scale(a: jax.Array) -> jax.Array:
    """The largest entry of each matrix `[..., 1, 1]`, by which it is divided against overflow; 1 where that is zero or not finite."""
    largest = jnp.max(magnitude(a), axis=(-1, -2), keepdims=True)
    return jnp.where((largest > 0) & jnp.isfinite(largest), largest, 1)


def divided(x: jax.Array, divisor: jax.Array) -> jax.Array:
    """`x / divisor` for real `divisor`."""
    return lax.complex(x.real / divisor, x.imag / divisor) if is_complex(x) else x / divisor


def quotient(x: jax.Array, y: jax.Array) -> jax.Array:
    """`x / y`, for complex ones without the special cases of infinities and zeros that `jnp.divide` distinguishes."""
    if not is_complex(y):
        return x / y
    size = jnp.maximum(jnp.abs(y.real), jnp.abs(y.imag))
    y = divided(y, size)
    return divided(x * jnp.conj(y), (y.real * y.real + y.imag * y.imag) * size)


def positions(size: int) -> jax.Array | Array:
    """int32 `[size]`: 0, 1, 2, …"""
    if is_static(size) and size <= _CONSTANT_SIZE:
        return np.arange(size, dtype=np.int32)
    return lax.iota(jnp.int32, size)


def strictly_lower(rows: int, columns: int) -> jax.Array | Array:
    """bool `[rows, columns]`: True below the diagonal."""
    return positions(rows)[:, None] > positions(columns)[None, :]


def eye_like(a: jax.Array, rows: int, columns: int) -> jax.Array:
    """The identity matrix.

    Args:
      a: an array of the wanted dtype.
      rows: the number of rows.
      columns: the number of columns.
    """
    return jnp.asarray((positions(rows)[:, None] == positions(columns)[None, :]).astype(a.dtype))


def at(x: jax.Array, index: jax.Array, axis: int) -> jax.Array:
    """Take one index along an axis: `x[..., index, ...]`.

    Args:
      x: the array.
      index: a scalar of an integer dtype, in range, the same for the whole batch.
      axis: the axis, which the result does not have.
    """
    return lax.dynamic_index_in_dim(x, index, axis, keepdims=False, allow_negative_indices=False)


def take(x: jax.Array, index: jax.Array, axis: int) -> jax.Array:
    """Take one row or column of matrices, another one for each element of the batch: `x[b, ..., index[b], ...]`.

    Args:
      x: matrices [*batch, m, n], or vectors [*batch, n] with axis -1.
      index: integers in range, [*batch].
      axis: -1 or -2.
    """
    indices = index.reshape(index.shape + (1,) * (x.ndim - index.ndim))
    taken = jnp.take_along_axis(x, indices, axis=axis, mode="promise_in_bounds")
    return jnp.squeeze(taken, axis)


def permute(x: jax.Array, order: jax.Array, axis: int) -> jax.Array:
    """Reorder rows or columns, in another way for each element of the batch.

    Args:
      x: matrices [*batch, m, n], or vectors [*batch, n] with axis -1.
      order: the indices of the rows or columns in their new order, [*batch, k].
      axis: -1 for columns, -2 for rows.
    """
    if axis == -2:
        order = order[..., None]
    elif x.ndim > order.ndim:
        order = order[..., None, :]
    return jnp.take_along_axis(x, order, axis=axis, mode="promise_in_bounds")


def diagonal(a: jax.Array) -> jax.Array:
    """The main diagonal of square matrices; nothing else of `a` is read, so NaN elsewhere is harmless."""
    size = a.shape[-1]
    on_diagonal = positions(size)[:, None] == positions(size)[None, :]
    return jnp.where(on_diagonal, a, jnp.zeros((), a.dtype)).sum(-1)


def columns_first(a: jax.Array) -> jax.Array:
    """`[..., m, n]` → `[n, ..., m]`: one column for each step of a scan."""
    return jnp.moveaxis(a, -1, 0)


def stacked(vectors: jax.Array, axis: int) -> jax.Array:
    """The stacked results of a scan, `[steps, ..., m]`, as the columns (axis -1) or rows (axis -2) of a matrix."""
    return jnp.moveaxis(vectors, 0, axis)


def resized(a: jax.Array, axis: int, size: int) -> jax.Array:
    """Append zeros along an axis, or leave out its last entries.

    Args:
      a: the array.
      axis: the axis.
      size: its new size.
    """
    amounts = [(0, 0, 0)] * a.ndim
    amounts[axis] = (0, size - a.shape[axis], 0)
    return lax.pad(a, jnp.zeros((), a.dtype), amounts)


def nan_unless(ok: jax.Array, x: jax.Array) -> jax.Array:
    """`x`, or NaN throughout those batch elements where `ok` is False: how JAX reports a failed factorisation."""
    nan = jnp.asarray(complex(jnp.nan, jnp.nan) if is_complex(x) else jnp.nan, x.dtype)
    return jnp.where(ok.reshape(ok.shape + (1,) * (x.ndim - ok.ndim)), x, nan)
