"""What is known about an array of indices when the graph is written.

JAX prepares every index before it gathers or scatters: it adds the axis' length to negative ones,
stacks one column per indexed axis, and later clamps or masks. ONNX operators count negative indices
from the end by themselves and take columns apart or together, so much of that is undone here. The
functions look at the nodes that produced a value; they never change them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jax.errors import InconclusiveDimensionOperation

__all__ = [
    "DIMENSION",
    "PROGRESSION",
    "RANGE",
    "all_different",
    "as_dimension",
    "before_normalisation",
    "bounds",
    "columns",
    "definitely_le",
    "in_range",
    "is_zero",
    "one_value",
    "producer",
    "progression",
    "to_index",
]

# Keys of `Value.meta`: the dimension that a scalar holds; the smallest and largest element of an array.
DIMENSION = "jax2onnx_lax.dimension"
RANGE = "jax2onnx_lax.range"
# Start (a dimension), step (a number) and length of an arithmetic progression.
PROGRESSION = "jax2onnx_lax.progression"

# A larger constant is not searched for zeros.
_COMPARED_BYTES = 1 << 16

# Operators whose result holds elements of their first operand and nothing else.
_RESHAPERS = frozenset({"Expand", "Reshape", "Squeeze", "Unsqueeze"})
_MOVERS = _RESHAPERS | {"Gather", "GatherElements", "Identity", "Slice", "Split", "Tile", "Transpose"}


def producer(value: Any, *op_types: str) -> Any:
    """The node that computes `value`, if it is of one of these standard operators."""
    node = value.producer()
    return node if node is not None and node.op_type in op_types and node.domain == "" else None


def to_index(ctx: Any, value: Any) -> Any:
    """`value` as int32 or int64, as the operators want it, keeping the order of all integers."""
    dtype = ctx.dtype(value)
    if dtype in (np.dtype(np.int32), np.dtype(np.int64)):
        return value
    if dtype == np.dtype(np.uint64):
        value = ctx.op.Min(value, ctx.constant(np.iinfo(np.int64).max, like=value))
    return ctx.cast(value, np.dtype(np.int64))


def columns(ctx: Any, indices: Any) -> list[Any]:
    """The columns of `indices` [..., k] as k arrays [...], taken from before they were stacked if possible."""
    dims = ctx.dims(indices)
    known = ctx.known(indices)
    if known is not None:
        return [ctx.constant(known[..., j]) for j in range(dims[-1])]
    if dims[-1] == 1:
        return [_drop_last(ctx, indices)]
    stacked = producer(indices, "Concat")
    axis = None if stacked is None else stacked.attributes["axis"].as_int() % len(dims)
    if axis == len(dims) - 1 and all(ctx.dims(x)[-1] == 1 for x in stacked.inputs):
        return [_drop_last(ctx, x) for x in stacked.inputs]
    last, rest = len(dims) - 1, dims[:-1]
    return [ctx.op.Gather(indices, ctx.constant(j, dtype=np.int64), axis=last, dims=rest) for j in range(dims[-1])]


def _drop_last(ctx: Any, value: Any) -> Any:
    """`value` [..., 1] as [...]."""
    last = len(ctx.dims(value)) - 1
    node = producer(value, "Unsqueeze", "Reshape")
    if node is not None and ctx.dims(node.inputs[0]) == ctx.dims(value)[:-1]:
        return node.inputs[0]
    return ctx.squeeze(value, [last])


def one_value(ctx: Any, value: Any) -> Any:
    """The scalar that every element of `value` equals, if one can be seen; else None."""
    dims = ctx.dims(value)
    known = ctx.known(value)
    if known is not None:
        same = known.size > 0 and (known == known.flat[0]).all()
        return ctx.constant(known.flat[0]) if same else None
    if all(d == 1 for d in dims):
        node = producer(value, "Unsqueeze", "Reshape", "Expand")
        return ctx.reshape(value, ()) if node is None else one_value(ctx, node.inputs[0])
    node = producer(value, "Expand", "Cast", *_RESHAPERS)
    if node is None:
        return None
    scalar = one_value(ctx, node.inputs[0]) if ctx.dims(node.inputs[0]) is not None else None
    return scalar if scalar is None else ctx.cast(scalar, ctx.dtype(value))


def is_zero(ctx: Any, value: Any) -> bool:
    """Can it be seen that all elements of `value` are zero (and none is -0)?"""
    known = ctx.known(value)
    if known is not None:
        return known.nbytes <= _COMPARED_BYTES and not known.tobytes().strip(b"\0")
    node = producer(value, "Expand")
    return node is not None and is_zero(ctx, node.inputs[0])


def as_dimension(ctx: Any, value: Any) -> Any:
    """The dimension (int or symbolic) that a one-element value holds, or None."""
    known = ctx.known(value)
    if known is not None:
        return int(known.item()) if known.size == 1 else None
    if DIMENSION in value.meta:
        return value.meta[DIMENSION]
    node = producer(value, "Cast", *_RESHAPERS)
    return None if node is None else as_dimension(ctx, node.inputs[0])


def progression(ctx: Any, value: Any) -> tuple[Any, int, Any] | None:
    """(start, step, count) if the elements of `value` are known to be start, start + step, …; else None.

    One of symbolic length is a Range with a multiple and an offset, a static one is a constant.
    """
    if PROGRESSION in value.meta:
        declared: tuple[Any, int, Any] = value.meta[PROGRESSION]
        return declared
    known = ctx.known(value)
    if known is not None:
        steps = np.diff(known) if known.ndim == 1 and known.size > 1 else np.zeros(0)
        return (int(known[0]), int(steps[0]), known.size) if steps.size and (steps == steps[0]).all() else None
    node = value.producer()
    if node is None or node.domain != "":
        return None
    if node.op_type in ("Cast", "Reshape", "Squeeze", "Unsqueeze"):
        return progression(ctx, node.inputs[0])
    if node.op_type == "Slice":
        return _reversed(ctx, node)
    return _computed(ctx, node) if node.op_type in ("Add", "Mul") else None


def _computed(ctx: Any, node: Any) -> tuple[Any, int, Any] | None:
    for some, other in (tuple(node.inputs), tuple(reversed(node.inputs))):
        found, number = progression(ctx, some), as_dimension(ctx, other)
        if found is not None and number is not None:
            start, step, count = found
            if node.op_type == "Add":
                return start + number, step, count
            return (start * number, step * number, count) if isinstance(number, int) else None
    return None


def _reversed(ctx: Any, node: Any) -> tuple[Any, int, Any] | None:
    """Of a vector taken from its end to its beginning."""
    starts, steps = ctx.known(node.inputs[1]), ctx.known(node.inputs[4]) if len(node.inputs) > 4 else None
    found = progression(ctx, node.inputs[0])
    if found is None or starts is None or steps is None or list(starts) != [-1] or list(steps) != [-1]:
        return None
    start, step, count = found
    return start + (count - 1) * step, -step, count


# ---------------------------------------------------------------------------------------- negative indices


def before_normalisation(ctx: Any, value: Any, extent: Any) -> Any:
    """`i` where `value` is `where(i < 0, i + extent, i)` (reshaped, broadcast or cast since), or None."""
    node = value.producer()
    if node is None or node.domain != "":
        return None
    if node.op_type == "Where":
        return _match_normalisation(ctx, node, extent)
    if node.op_type not in _RESHAPERS and node.op_type != "Cast":
        return None
    inner = before_normalisation(ctx, node.inputs[0], extent)
    return None if inner is None else _again(ctx, node, inner, value)


def _match_normalisation(ctx: Any, where: Any, extent: Any) -> Any:
    condition, moved, index = where.inputs
    less, add = producer(condition, "Less"), producer(moved, "Add")
    if less is None or add is None or less.inputs[0] is not index:
        return None
    others = [x for x in add.inputs if x is not index]
    if len(others) != 1 or not _is_number(ctx, less.inputs[1], 0) or not _is_number(ctx, others[0], extent):
        return None
    return index


def _is_number(ctx: Any, value: Any, number: Any) -> bool:
    held = as_dimension(ctx, value)
    if held is None and (known := ctx.known(value)) is not None and known.size > 0:
        held = int(known.flat[0]) if (known == known.flat[0]).all() else None
    return held is not None and bool(held == number)


def _again(ctx: Any, node: Any, inner: Any, like: Any) -> Any:
    """The reshaping or cast `node`, whose result is `like`, applied to `inner`."""
    if node.op_type == "Cast":
        return ctx.cast(inner, ctx.dtype(like))
    if node.op_type == "Expand":
        return ctx.broadcast(inner, ctx.dims(like))
    if node.op_type == "Unsqueeze" and (axes := ctx.known(node.inputs[1])) is not None:
        rank = len(ctx.dims(like))
        return ctx.unsqueeze(inner, [int(axis) % rank for axis in axes])
    return ctx.reshape(inner, ctx.dims(like))


# ---------------------------------------------------------------------------------------- bounds


def bounds(ctx: Any, value: Any) -> tuple[Any, Any] | None:
    """Dimensions (low, high) between which all elements of `value` are, ends included, or None."""
    known = ctx.known(value)
    if known is not None:
        return (int(known.min()), int(known.max())) if known.size else (0, 0)
    if RANGE in value.meta:
        limits: tuple[Any, Any] = value.meta[RANGE]
        return limits
    if DIMENSION in value.meta:
        return value.meta[DIMENSION], value.meta[DIMENSION]
    node = value.producer()
    if node is None or node.domain != "":
        return None
    if node.op_type in _MOVERS or (node.op_type == "Cast" and ctx.dtype(node.inputs[0]).kind in "iu"):
        return bounds(ctx, node.inputs[0]) or _dtype_bounds(ctx, node.inputs[0])
    if node.op_type == "TopK":
        return _position_bounds(ctx, node, -1) if value is node.outputs[1] else bounds(ctx, node.inputs[0])
    find = _BOUNDS.get(node.op_type)
    return None if find is None else find(ctx, node)


def _dtype_bounds(ctx: Any, value: Any) -> tuple[Any, Any] | None:
    """Those of an unsigned integer."""
    dtype = ctx.dtype(value)
    return (0, int(np.iinfo(dtype).max)) if dtype.kind == "u" else None


def _clip_bounds(ctx: Any, node: Any) -> tuple[Any, Any] | None:
    if len(node.inputs) < 3 or node.inputs[1] is None or node.inputs[2] is None:
        return None
    low, high = bounds(ctx, node.inputs[1]), bounds(ctx, node.inputs[2])
    return None if low is None or high is None else (low[0], high[1])


def _position_bounds(ctx: Any, node: Any, axis: int = 0) -> tuple[Any, Any] | None:
    dims = ctx.dims(node.inputs[0])
    axis = node.attributes["axis"].as_int() if "axis" in node.attributes else axis
    return None if dims is None else (0, dims[axis] - 1)


def _mod_bounds(ctx: Any, node: Any) -> tuple[Any, Any] | None:
    floored = "fmod" not in node.attributes or node.attributes["fmod"].as_int() == 0
    divisor = bounds(ctx, node.inputs[1])
    return (0, divisor[1] - 1) if floored and divisor is not None and definitely_le(1, divisor[0]) else None


def _add_bounds(ctx: Any, node: Any) -> tuple[Any, Any] | None:
    left, right = bounds(ctx, node.inputs[0]), bounds(ctx, node.inputs[1])
    return None if left is None or right is None else (left[0] + right[0], left[1] + right[1])


def _mul_bounds(ctx: Any, node: Any) -> tuple[Any, Any] | None:
    left, right = bounds(ctx, node.inputs[0]), bounds(ctx, node.inputs[1])
    if left is None or right is None or not (definitely_le(0, left[0]) and definitely_le(0, right[0])):
        return None
    return left[0] * right[0], left[1] * right[1]


def _where_bounds(ctx: Any, node: Any) -> tuple[Any, Any] | None:
    """Of a normalised index whose original is never negative, the original's."""
    less = producer(node.inputs[0], "Less")
    if less is None or less.inputs[0] is not node.inputs[2] or not _is_number(ctx, less.inputs[1], 0):
        return None
    found = bounds(ctx, node.inputs[2])
    return found if found is not None and definitely_le(0, found[0]) else None


_BOUNDS = {
    "Add": _add_bounds,
    "ArgMax": _position_bounds,
    "ArgMin": _position_bounds,
    "Clip": _clip_bounds,
    "Mod": _mod_bounds,
    "Mul": _mul_bounds,
    "Where": _where_bounds,
}


def definitely_le(low: Any, high: Any) -> bool:
    """Is `low <= high` for every value of the symbols in them?"""
    try:
        return bool(low <= high)
    except InconclusiveDimensionOperation:
        return False


def all_different(ctx: Any, value: Any) -> bool:
    """Can it be seen that no two elements of `value` are equal?"""
    known = ctx.known(value)
    if known is not None:
        return bool(np.unique(known).size == known.size)
    node = producer(value, "Range", "Cast", "Reshape", "Squeeze", "Transpose", "Unsqueeze")
    if node is None or node.op_type == "Range":
        return node is not None
    return all_different(ctx, node.inputs[0])


def in_range(ctx: Any, value: Any, low: Any, high: Any) -> bool:
    """Can it be seen that low <= element <= high for every element of `value`?"""
    found = bounds(ctx, value)
    return found is not None and definitely_le(low, found[0]) and definitely_le(found[1], high)
