"""Negative indices: JAX adds the axis' length to them, ONNX operators count them from the end by themselves."""

from __future__ import annotations

import numpy as np
from jax2onnx_core import Context, Dim, Value
from jax2onnx_graph import ir
from jax2onnx_graph.build.builder import DtypeLike
from jax2onnx_graph.rewrite.patterns import operation

from jax2onnx_lax.indexing._index_analysis import VIEWS, holds_number, operand
from jax2onnx_lax.indexing._value_bounds import is_in_range

__all__ = ["before_normalisation"]


def before_normalisation(ctx: Context, value: Value, extent: Dim) -> Value | None:
    """The indices to which JAX has added the axis' length where they are negative.

    Args:
      ctx: the context of the rule.
      value: the array `where(i < 0, i + extent, i)`, perhaps reshaped, broadcast or cast since.
      extent: the length of the axis.

    Returns:
      The array `i`, or None if `value` is no such array.
    """
    node = operation(value, "Where", "Cast", "Expand", *VIEWS)
    if node is None:
        return None
    if node.op_type == "Where":
        return _match_normalisation(ctx, node, extent)
    if node.op_type == "Cast" and not _keeps_numbers(ctx, operand(node), ctx.dtype(value)):
        return None
    inner = before_normalisation(ctx, operand(node), extent)
    return None if inner is None else _reapply_view(ctx, node, inner, value)


def _keeps_numbers(ctx: Context, value: Value, dtype: DtypeLike) -> bool:
    """Whether each integer in `value` is the same number in this integer type."""
    limits = np.iinfo(dtype)
    return ctx.dtype(value).kind in "iu" and is_in_range(ctx, value, int(limits.min), int(limits.max))


def _match_normalisation(ctx: Context, where: ir.Node, extent: Dim) -> Value | None:
    condition, moved, index = where.inputs
    less, add = operation(condition, "Less"), operation(moved, "Add")
    if less is None or add is None or less.inputs[0] is not index:
        return None
    others = [x for x in add.inputs if x is not None and x is not index]
    if len(others) != 1 or not holds_number(ctx, operand(less, 1), 0) or not holds_number(ctx, others[0], extent):
        return None
    return index


def _reapply_view(ctx: Context, node: ir.Node, inner: Value, like: Value) -> Value:
    """The Cast, Expand or view `node`, whose result is `like`, applied to `inner` instead."""
    if node.op_type == "Cast":
        return ctx.cast(inner, ctx.dtype(like))
    dims = ctx.known_dims(like)
    if node.op_type == "Expand":
        return ctx.broadcast(inner, dims)
    if node.op_type == "Unsqueeze" and (axes := ctx.known(operand(node, 1))) is not None:
        return ctx.unsqueeze(inner, [int(axis) % len(dims) for axis in axes])
    return ctx.reshape(inner, dims)
