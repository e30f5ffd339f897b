"""Bounds, as dimensions, on the elements of arrays of integers."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from jax2onnx_core import Context, Dim, Value
from jax2onnx_core.jaxprs import bounds, definitely_le, is_positive
from jax2onnx_graph import ir
from jax2onnx_graph.build.builder import DtypeLike
from jax2onnx_graph.rewrite.patterns import operation
from jax2onnx_graph.rewrite.remainders import floored_remainder

from jax2onnx_lax._compat import max_dim, min_dim
from jax2onnx_lax.indexing._index_analysis import VIEWS, axis_of, holds_number, operand
from jax2onnx_lax.indexing._value_facts import Bounds, dimension_of, range_of

__all__ = ["is_in_range", "value_bounds"]

# Operators whose result holds elements of their first operand and nothing else. (Those that the table of facts says
# to move values may have several operands, or add zeros.)
_COPIES = VIEWS | {"Cast", "Expand", "Gather", "GatherElements", "Identity", "Slice", "Split", "Tile", "Transpose"}

# A longer formula is not looked through: each step may double the work.
_DEPTH = 10


def is_in_range(ctx: Context, value: Value, low: Dim, high: Dim) -> bool:
    """Whether low <= element <= high is known for every element of an array and all values of symbols.

    Args:
      ctx: the context of the rule.
      value: an array of integers.
      low: the smallest allowed element.
      high: the largest allowed element.
    """
    found = value_bounds(ctx, value)
    return definitely_le(low, found[0]) and definitely_le(found[1], high)


def value_bounds(ctx: Context, value: Value, depth: int = _DEPTH) -> Bounds:
    """Dimensions (low, high) between which all elements of `value` are, ends included.

    Args:
      ctx: the context of the rule.
      value: an array of integers or booleans.
      depth: the number of further operators that may be looked through.

    Returns:
      The limits of the dtype where nothing else is known.
    """
    limits = _limits(ctx.dtype(value))
    known = ctx.known(value)
    if known is not None:
        return (int(known.min()), int(known.max())) if known.size else (0, 0)
    stated, dim = range_of(value), dimension_of(value)
    if stated is not None:
        return stated
    if dim is not None:
        return dim, dim
    node = operation(value, *_COPIES, *_POSITIONS, *_ARITHMETIC, "Mod", "Where")
    if node is None or not depth:
        return limits
    found = _node_bounds(ctx, node, value, depth - 1)
    return found if found is not None and _fits(found, limits) else limits


def _limits(dtype: DtypeLike) -> tuple[int, int]:
    if dtype == np.bool_:
        return 0, 1
    info = np.iinfo(dtype)
    return int(info.min), int(info.max)


def _fits(found: Bounds, limits: tuple[int, int]) -> bool:
    """Whether a result between these bounds does not wrap around; of symbols half of the dtype is taken to suffice."""
    (low, high), (least, greatest) = found, limits
    low_fits = least <= low if isinstance(low, int) else least // 2 <= bounds(low)[1]
    high_fits = high <= greatest if isinstance(high, int) else bounds(high)[0] <= greatest // 2
    return low_fits and high_fits


def _node_bounds(ctx: Context, node: ir.Node, value: Value, depth: int) -> Bounds | None:
    """The bounds of a result of a node, before it wraps around."""
    if node.op_type in _POSITIONS and value is node.outputs[-1]:
        return _position_bounds(ctx, node)
    if node.op_type == "Where":
        return _where_bounds(ctx, node, depth)
    if ctx.dtype(operand(node)).kind not in "iub":
        return None
    if node.op_type in _ARITHMETIC:
        operands = [value for value in node.inputs if value is not None]
        arithmetic = _ARITHMETIC[node.op_type]
        return (
            arithmetic(*(value_bounds(ctx, v, depth) for v in operands)) if len(operands) == len(node.inputs) else None
        )
    found = value_bounds(ctx, operand(node), depth)
    if node.op_type == "Mod":
        is_floored = node.attributes.get_int("fmod", 0) == 0
        return _mod_bounds(found, value_bounds(ctx, operand(node, 1), depth), is_floored=is_floored)
    return found


def _position_bounds(ctx: Context, node: ir.Node) -> Bounds | None:
    """The bounds of positions along an axis of the operand."""
    dims = ctx.dims(operand(node))
    return None if dims is None else (0, dims[axis_of(node)] - 1)


def _where_bounds(ctx: Context, node: ir.Node, depth: int) -> Bounds:
    """The bounds of `x % n`, and of `i` in `where(i < 0, …, i)` if it is never negative; else those of both cases."""
    remainder = floored_remainder(node)
    if remainder is not None:
        return 0, value_bounds(ctx, operand(remainder, 1), depth)[1] - 1
    less, index = operation(node.inputs[0], "Less"), operand(node, 2)
    found = value_bounds(ctx, index, depth)
    is_normalisation = less is not None and less.inputs[0] is index and holds_number(ctx, operand(less, 1), 0)
    if is_normalisation and definitely_le(0, found[0]):
        return found
    return _union(value_bounds(ctx, operand(node, 1), depth), found)


# ---------------------------------------------------------------------------------------- intervals


def _union(*parts: Bounds) -> Bounds:
    low, high = parts[0]
    for other in parts[1:]:
        low, high = min_dim(low, other[0]), max_dim(high, other[1])
    return low, high


def _add(x: Bounds, y: Bounds) -> Bounds:
    return x[0] + y[0], x[1] + y[1]


def _sub(x: Bounds, y: Bounds) -> Bounds:
    return x[0] - y[1], x[1] - y[0]


def _mul(x: Bounds, y: Bounds) -> Bounds | None:
    """The bounds of a product of factors that are not negative."""
    return (x[0] * y[0], x[1] * y[1]) if definitely_le(0, x[0]) and definitely_le(0, y[0]) else None


def _div(x: Bounds, y: Bounds) -> Bounds | None:
    """The bounds of a quotient of a dividend that is not negative and a positive divisor."""
    return (x[0] // y[1], x[1] // y[0]) if definitely_le(0, x[0]) and is_positive(y[0]) else None


def _mod_bounds(x: Bounds, y: Bounds, *, is_floored: bool) -> Bounds | None:
    if not is_positive(y[0]):
        return None
    return (0, y[1] - 1) if is_floored or definitely_le(0, x[0]) else (1 - y[1], y[1] - 1)


def _min(*parts: Bounds) -> Bounds:
    low, high = parts[0]
    for other in parts[1:]:
        low, high = min_dim(low, other[0]), min_dim(high, other[1])
    return low, high


def _max(*parts: Bounds) -> Bounds:
    low, high = parts[0]
    for other in parts[1:]:
        low, high = max_dim(low, other[0]), max_dim(high, other[1])
    return low, high


def _clip(x: Bounds, low: Bounds, high: Bounds) -> Bounds:
    return _min(_max(x, low), high)


def _and(x: Bounds, y: Bounds) -> Bounds | None:
    """The bounds of `x & y` where one of them is not negative: the result is no greater than it."""
    for mask in (x, y):
        if definitely_le(0, mask[0]):
            return 0, mask[1]
    return None


# Operators with two results give positions as the second one.
_POSITIONS = frozenset({"ArgMax", "ArgMin", "TopK"})

_ARITHMETIC: Mapping[str, Callable[..., Bounds | None]] = {
    "Add": _add,
    "BitwiseAnd": _and,
    "Clip": _clip,
    "Concat": _union,
    "Div": _div,
    "Max": _max,
    "Min": _min,
    "Mul": _mul,
    "Sub": _sub,
}
