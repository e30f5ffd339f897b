"""Arrays that follow from their shape: stored where they are small, else computed when the model runs."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from jax2onnx_core import Context, Dim, Value
from jax2onnx_core.jaxprs import is_static
from jax2onnx_graph.build.builder import DtypeLike

__all__ = ["arange", "stored_shape", "zeros"]

# An array with more elements is not stored.
_STORED_ELEMENTS = 4096


def stored_shape(dims: Sequence[Dim]) -> tuple[int, ...] | None:
    """The shape as numbers if an array of it is small enough to be stored, else None."""
    sizes = tuple(size for size in dims if is_static(size))
    return sizes if len(sizes) == len(dims) and math.prod(sizes) <= _STORED_ELEMENTS else None


def arange(ctx: Context, count: Dim, dtype: DtypeLike) -> Value:
    """The vector 0, 1, …, count - 1.

    Args:
      ctx: the context of the rule.
      count: its length, which may be symbolic.
      dtype: an integer dtype.
    """
    stored = stored_shape((count,))
    if stored is not None:
        return ctx.constant(np.arange(*stored).astype(dtype))
    exact = np.int32 if np.dtype(dtype) == np.int32 else np.int64
    limit = ctx.cast(ctx.dim(count), exact)
    line = ctx.op.Range(ctx.constant(0, dtype=exact), limit, ctx.constant(1, dtype=exact), dims=(count,))
    ctx.define(line, "iota", dtype=np.dtype(exact), shape=(count,), dimension=0)
    return ctx.define(ctx.cast(line, dtype), "convert_element_type", line, new_dtype=np.dtype(dtype))


def zeros(ctx: Context, dtype: DtypeLike, dims: Sequence[Dim]) -> Value:
    """An array of zeros.

    Args:
      ctx: the context of the rule.
      dtype: its dtype.
      dims: its dimensions, which may be symbolic.
    """
    stored = stored_shape(dims)
    if stored is not None:
        return ctx.constant(np.zeros(stored, dtype))
    zero, shape = ctx.constant(np.zeros((), dtype)), tuple(dims)
    return ctx.define(ctx.broadcast(zero, shape), "broadcast_in_dim", zero, shape=shape, broadcast_dimensions=())
