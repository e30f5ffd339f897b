"""Negative indices: JAX adds the axis' length to them, ONNX operators count them from the end by themselves."""

from __future__ import annotations

from jax2onnx_core import Context, Dim, Value
from jax2onnx_core.lowering.definitions import Definition

from jax2onnx_lax.integers._domain import holds_integers, limits
from jax2onnx_lax.integers._values import holds_number, is_in_range

__all__ = ["before_normalisation"]

_VIEWS = frozenset({"broadcast_in_dim", "convert_element_type", "reshape", "squeeze"})


def before_normalisation(ctx: Context, value: Value, extent: Dim) -> Value | None:
    """The indices to which JAX has added the axis' length where they are negative.

    Args:
      ctx: the context of the rule.
      value: the array `where(i < 0, i + extent, i)`, perhaps reshaped, broadcast or converted since.
      extent: the length of the axis.

    Returns:
      The array `i`, or None if `value` is no such array.
    """
    definition = ctx.definition(value)
    if definition is None:
        return None
    if definition.primitive == "select_n":
        return _match_normalisation(ctx, definition, extent)
    if definition.primitive not in _VIEWS or not _keeps_numbers(ctx, definition):
        return None
    inner = before_normalisation(ctx, definition.operands[0], extent)
    return None if inner is None else _reapply_view(ctx, definition, inner, value)


def _keeps_numbers(ctx: Context, definition: Definition) -> bool:
    """Whether each integer in the operand is the same number in the dtype of the result."""
    if definition.primitive != "convert_element_type":
        return True
    is_integer = holds_integers(definition.avals_in[0])
    return is_integer and is_in_range(ctx, definition.operands[0], *limits(definition.aval.dtype))


def _match_normalisation(ctx: Context, select: Definition, extent: Dim) -> Value | None:
    condition, index, moved = select.operands if len(select.operands) == 3 else (None, None, None)
    less = None if condition is None else ctx.definition(condition)
    add = None if moved is None else ctx.definition(moved)
    if less is None or add is None or (less.primitive, add.primitive) != ("lt", "add") or less.operands[0] is not index:
        return None
    others = [x for x in add.operands if x is not index]
    if len(others) != 1 or not holds_number(ctx, less.operands[1], 0) or not holds_number(ctx, others[0], extent):
        return None
    return index


def _reapply_view(ctx: Context, view: Definition, inner: Value, like: Value) -> Value:
    """The result of a view or conversion, which is `like`, of `inner` instead."""
    dims = ctx.known_dims(like)
    new = [d for d in range(len(dims)) if d not in view.params.get("broadcast_dimensions", range(len(dims)))]
    if view.primitive == "convert_element_type":
        result = ctx.cast(inner, ctx.dtype(like))
    elif view.primitive != "broadcast_in_dim":
        result = ctx.reshape(inner, dims)
    elif ctx.dims(inner) == tuple(size for d, size in enumerate(dims) if d not in new) and all(
        dims[d] == 1 for d in new
    ):
        result = ctx.unsqueeze(inner, new)
    else:
        result = ctx.broadcast_in_dim(inner, dims, view.params["broadcast_dimensions"])
    return ctx.define(result, view.primitive, inner, **view.params)
