"""Between which dimensions the elements of an array of integers are known to be."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from jax2onnx_core import Context, Dim, Value
from jax2onnx_core.jaxprs import definitely_le, is_positive
from jax2onnx_graph import ir
from jax2onnx_graph.rewrite.patterns import operation

from jax2onnx_lax.indexing.index_analysis import VIEWS, axis_of, holds_number, operand
from jax2onnx_lax.indexing.value_facts import Bounds, dimension_of, range_of

__all__ = ["is_in_range", "value_bounds"]

# Operators whose result holds elements of their first operand and nothing else. (Those that the table of facts says
# to move values may have several operands, or add zeros.)
_COPIES = VIEWS | {"Expand", "Gather", "GatherElements", "Identity", "Slice", "Split", "Tile", "Transpose"}


def is_in_range(ctx: Context, value: Value, low: Dim, high: Dim) -> bool:
    """Whether low <= element <= high can be seen for every element of `value` and all values of symbols."""
    found = value_bounds(ctx, value)
    return found is not None and definitely_le(low, found[0]) and definitely_le(found[1], high)


def value_bounds(ctx: Context, value: Value) -> Bounds | None:
    """Dimensions (low, high) between which all elements of `value` are, ends included; None if nothing is known."""
    known = ctx.known(value)
    if known is not None:
        return (int(known.min()), int(known.max())) if known.size else (0, 0)
    stated, dim = range_of(value), dimension_of(value)
    if stated is not None or dim is not None:
        return stated if dim is None or stated is not None else (dim, dim)
    node = operation(value, "Cast", "TopK", *_COPIES, *_BOUNDS)
    if node is None:
        return None
    if node.op_type == "Cast":
        return _copied_bounds(ctx, node) if ctx.dtype(operand(node)).kind in "iu" else None
    if node.op_type == "TopK":
        return _position_bounds(ctx, node) if value is node.outputs[1] else value_bounds(ctx, operand(node))
    return _BOUNDS.get(node.op_type, _copied_bounds)(ctx, node)


def _copied_bounds(ctx: Context, node: ir.Node) -> Bounds | None:
    """Those of the first operand, at least of its type where that is unsigned."""
    found = value_bounds(ctx, operand(node))
    dtype = ctx.dtype(operand(node))
    return (0, int(np.iinfo(dtype).max)) if found is None and dtype.kind == "u" else found


def _clip_bounds(ctx: Context, node: ir.Node) -> Bounds | None:
    if len(node.inputs) < 3 or node.inputs[1] is None or node.inputs[2] is None:
        return None
    low, high = value_bounds(ctx, node.inputs[1]), value_bounds(ctx, node.inputs[2])
    return None if low is None or high is None else (low[0], high[1])


def _position_bounds(ctx: Context, node: ir.Node) -> Bounds | None:
    """Those of positions along an axis of the operand."""
    dims = ctx.dims(operand(node))
    return None if dims is None else (0, dims[axis_of(node)] - 1)


def _mod_bounds(ctx: Context, node: ir.Node) -> Bounds | None:
    divisor = value_bounds(ctx, operand(node, 1))
    is_floored = node.attributes.get_int("fmod", 0) == 0
    return (0, divisor[1] - 1) if is_floored and divisor is not None and is_positive(divisor[0]) else None


def _add_bounds(ctx: Context, node: ir.Node) -> Bounds | None:
    left, right = value_bounds(ctx, operand(node, 0)), value_bounds(ctx, operand(node, 1))
    return None if left is None or right is None else (left[0] + right[0], left[1] + right[1])


def _mul_bounds(ctx: Context, node: ir.Node) -> Bounds | None:
    """Those of a product of factors that are not negative."""
    left, right = value_bounds(ctx, operand(node, 0)), value_bounds(ctx, operand(node, 1))
    if left is None or right is None or not (definitely_le(0, left[0]) and definitely_le(0, right[0])):
        return None
    return left[0] * right[0], left[1] * right[1]


def _where_bounds(ctx: Context, node: ir.Node) -> Bounds | None:
    """Those of `i` in `where(i < 0, …, i)` if it is never negative."""
    less, index = operation(node.inputs[0], "Less"), operand(node, 2)
    if less is None or less.inputs[0] is not index or not holds_number(ctx, operand(less, 1), 0):
        return None
    found = value_bounds(ctx, index)
    return found if found is not None and definitely_le(0, found[0]) else None


_BOUNDS: Mapping[str, Callable[[Context, ir.Node], Bounds | None]] = {
    "Add": _add_bounds,
    "ArgMax": _position_bounds,
    "ArgMin": _position_bounds,
    "Clip": _clip_bounds,
    "Mod": _mod_bounds,
    "Mul": _mul_bounds,
    "Where": _where_bounds,
}
