"""Arrays that depend on shapes only: iota, empty, zeros_like, the values of dimensions."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax2onnx_core import Complex, Context, Dim, Rules, Value
from jax2onnx_core.lowering.physical import physical_type
from jax2onnx_graph.build.builder import Array, DtypeLike

from jax2onnx_lax.indexing._generated_arrays import arange, stored_shape, zeros

__all__ = ["rules"]

rules = Rules()


@rules.lower("iota")
def iota(ctx: Context, *_: Value, dtype: DtypeLike, shape: Sequence[Dim], dimension: int, **__: object) -> Value:
    """An array of this shape whose elements are their indices along the axis `dimension`."""
    stored = stored_shape(shape)
    if stored is not None:
        return ctx.constant(_evaluate_iota(dtype=dtype, shape=stored, dimension=dimension))
    line = arange(ctx, shape[dimension], dtype)
    others = [axis for axis in range(len(shape)) if axis != dimension]
    return ctx.broadcast(ctx.unsqueeze(line, others), shape)


@rules.numpy_evaluator("iota")
def _evaluate_iota(*_: Array, dtype: DtypeLike, shape: Sequence[int], dimension: int, **__: object) -> Array:
    placed = [1] * len(shape)
    placed[dimension] = shape[dimension]
    return np.broadcast_to(np.arange(shape[dimension]).astype(dtype).reshape(placed), shape)


@rules.complex("iota")
def _complex_iota(*_: jax.Array, dtype: DtypeLike, shape: Sequence[int], dimension: int, **__: object) -> Complex:
    real = lax.broadcasted_iota(np.empty(0, dtype).real.dtype, shape, dimension)
    return Complex(real, jnp.zeros_like(real))


@rules.lower("empty", "empty2", "zeros_like", physical=True)
def empty(ctx: Context, *_: Value, **__: object) -> Value:
    """Zeros, as JAX's CPU backend gives for memory that it has not written."""
    return zeros(ctx, *physical_type(ctx.avals_out[0]))


# ---------------------------------------------------------------------------------------- dimension values


@rules.lower("dim_as_value")
def dim_as_value(ctx: Context, *, dim: Dim, **_: object) -> Value:
    """A symbolic dimension as a scalar."""
    return _dimension(ctx, dim)


@rules.lower("dimension_size")
def dimension_size(ctx: Context, *_: Value, dimension: int, **__: object) -> Value:
    """The size of one axis of the operand as a scalar."""
    return _dimension(ctx, ctx.avals_in[0].shape[dimension])


def _dimension(ctx: Context, dim: Dim) -> Value:
    """A dimension as a scalar of the result's dtype, in whatever graph it is computed."""
    return ctx.define(ctx.cast(ctx.dim(dim), ctx.avals_out[0].dtype), "dim_as_value", dim=dim)


@rules.lower("shape_assertion")
def shape_assertion(ctx: Context, *_: Value, **__: object) -> Sequence[Value]:
    """Emit nothing: the constraints on symbols are checked where the model's inputs are."""
    return []
