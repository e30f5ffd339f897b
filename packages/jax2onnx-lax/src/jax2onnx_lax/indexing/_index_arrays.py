"""Arrays of indices as operators take them: of one integer type, and for each indexed axis on its own.

JAX stacks the indices of several axes before it gathers or scatters; here the equations that did so are undone.
"""

from __future__ import annotations

import numpy as np
from jax2onnx_core import Context, Dim, Value

__all__ = ["dimension", "to_index", "unstack_indices", "wide_index"]


def dimension(ctx: Context, dim: Dim) -> Value:
    """A dimension as an int64 scalar of which rules know what it is."""
    return ctx.define(ctx.dim(dim), "dim_as_value", dim=dim)


def wide_index(ctx: Context, value: Value) -> Value:
    """Integers as int64."""
    return ctx.define(ctx.cast(value, np.int64), "convert_element_type", value, new_dtype=np.dtype(np.int64))


def to_index(ctx: Context, value: Value) -> Value:
    """Integers of any type as int32 or int64, which operators index with; uint64 saturates."""
    dtype = ctx.dtype(value)
    if dtype in (np.dtype(np.int32), np.dtype(np.int64)):
        return value
    if dtype == np.uint64:
        largest = ctx.constant(np.iinfo(np.int64).max, like=value)
        value = ctx.define(ctx.op.Min(value, largest), "min", value, largest)
    return wide_index(ctx, value)


def unstack_indices(ctx: Context, indices: Value, count: int) -> list[Value]:
    """Split an array of indices along its last axis.

    Args:
      ctx: the context of the rule.
      indices: [*batch, count]; where it is a concatenation of single columns, these are the result.
      count: the size of its last axis.

    Returns:
      `count` arrays [*batch].
    """
    dims = ctx.known_dims(indices)
    known = ctx.known(indices)
    if known is not None:
        return [ctx.constant(known[..., j]) for j in range(count)]
    if count == 1:
        return [_drop_last(ctx, indices)]
    last, batch = len(dims) - 1, dims[:-1]
    stacked = ctx.definition(indices)
    is_stack = stacked is not None and stacked.primitive == "concatenate" and stacked.params["dimension"] == last
    if stacked is not None and is_stack and len(stacked.operands) == count:
        return [_drop_last(ctx, part) for part in stacked.operands]
    return [ctx.op.Gather(indices, ctx.constant(j, dtype=np.int64), axis=last, dims=batch) for j in range(count)]


def _drop_last(ctx: Context, value: Value) -> Value:
    """`value` [..., 1] as [...]."""
    dims, definition = ctx.known_dims(value), ctx.definition(value)
    is_view = definition is not None and definition.primitive in ("broadcast_in_dim", "reshape")
    if definition is not None and is_view and ctx.dims(definition.operands[0]) == dims[:-1]:
        return definition.operands[0]
    last = len(dims) - 1
    return ctx.define(ctx.squeeze(value, [last]), "squeeze", value, dimensions=(last,))
