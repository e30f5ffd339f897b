"""Questions about an array of indices that can be answered when the graph is written, from the nodes that produced it.

JAX prepares every index before it gathers or scatters: it stacks the indices of several axes, and later clamps or
masks. ONNX operators take each axis' indices apart or together, so much of that is undone here. No function changes a node.
"""

from __future__ import annotations

import numpy as np
from jax2onnx_core import Context, Dim, Value
from jax2onnx_graph import ir
from jax2onnx_graph.build.builder import Array
from jax2onnx_graph.facts.operators import facts_of, operators_where
from jax2onnx_graph.rewrite.patterns import operation

from jax2onnx_lax.indexing._value_facts import Progression, dimension_of, progression_of

__all__ = [
    "VIEWS",
    "all_different",
    "as_dimension",
    "axis_of",
    "holds_number",
    "is_zero",
    "one_value",
    "operand",
    "progression",
    "to_index",
    "unstack_indices",
]

# A larger constant is not searched for zeros.
_COMPARED_BYTES = 1 << 16

#: Operators whose result has the elements of the first operand in the same order, in another shape.
VIEWS = operators_where(lambda facts: facts.is_view)


def operand(node: ir.Node, index: int = 0) -> Value:
    """An operand that the node's operator requires."""
    value = node.inputs[index]
    assert value is not None, f"{node.op_type} requires operand {index}"
    return value


def axis_of(node: ir.Node) -> int:
    """The attribute `axis` of a node, or its default."""
    return node.attributes.get_int("axis", facts_of(node.op_type).axis or 0)


def to_index(ctx: Context, value: Value) -> Value:
    """Integers of any type as int32 or int64, which operators index with; uint64 saturates."""
    dtype = ctx.dtype(value)
    if dtype in (np.dtype(np.int32), np.dtype(np.int64)):
        return value
    if dtype == np.uint64:
        value = ctx.op.Min(value, ctx.constant(np.iinfo(np.int64).max, like=value))
    return ctx.cast(value, np.int64)


def unstack_indices(ctx: Context, indices: Value, count: int) -> list[Value]:
    """Split an array of indices along its last axis.

    Args:
      ctx: the context of the rule.
      indices: [*batch, count]; where it is a Concat of single columns, these are the result.
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
    stacked = operation(indices, "Concat")
    if stacked is not None and axis_of(stacked) % len(dims) == last:
        parts = [operand(stacked, j) for j in range(len(stacked.inputs))]
        if all(ctx.known_dims(part)[-1] == 1 for part in parts):
            return [_drop_last(ctx, part) for part in parts]
    return [ctx.op.Gather(indices, ctx.constant(j, dtype=np.int64), axis=last, dims=batch) for j in range(count)]


def _drop_last(ctx: Context, value: Value) -> Value:
    """`value` [..., 1] as [...]."""
    dims = ctx.known_dims(value)
    node = operation(value, "Unsqueeze", "Reshape")
    if node is not None and ctx.dims(operand(node)) == dims[:-1]:
        return operand(node)
    return ctx.squeeze(value, [len(dims) - 1])


def one_value(ctx: Context, value: Value) -> Value | None:
    """The scalar that every element of `value` equals, if one can be seen; else None."""
    known = ctx.known(value)
    if known is not None:
        return ctx.constant(known.flat[0]) if _is_uniform(known) else None
    if all(size == 1 for size in ctx.known_dims(value)):
        node = operation(value, "Unsqueeze", "Reshape", "Expand")
        return ctx.reshape(value, ()) if node is None else one_value(ctx, operand(node))
    node = operation(value, "Expand", "Cast", *VIEWS)
    if node is None or ctx.dims(operand(node)) is None:
        return None
    scalar = one_value(ctx, operand(node))
    return scalar if scalar is None else ctx.cast(scalar, ctx.dtype(value))


def is_zero(ctx: Context, value: Value) -> bool:
    """Whether all elements of `value` can be seen to be zero, none of them -0."""
    known = ctx.known(value)
    if known is not None:
        return known.nbytes <= _COMPARED_BYTES and not known.tobytes().strip(b"\0")
    node = operation(value, "Expand")
    return node is not None and is_zero(ctx, operand(node))


def as_dimension(ctx: Context, value: Value) -> Dim | None:
    """The number or symbolic dimension that a one-element value holds, if it can be seen; else None."""
    known = ctx.known(value)
    if known is not None:
        return int(known.item()) if known.size == 1 else None
    stated = dimension_of(value)
    if stated is not None:
        return stated
    node = operation(value, "Cast", "Expand", *VIEWS)
    return None if node is None else as_dimension(ctx, operand(node))


def holds_number(ctx: Context, value: Value, number: Dim) -> bool:
    """Whether all elements of an array are known to equal a number, and there is at least one.

    Args:
      ctx: the context of the rule.
      value: an array of integers.
      number: the number, which may be symbolic.
    """
    held = as_dimension(ctx, value)
    if held is not None:
        return held == number
    known = ctx.known(value)
    return known is not None and _is_uniform(known) and int(known.flat[0]) == number


def _is_uniform(array: Array) -> bool:
    """Whether the array has elements and all of them are equal."""
    return array.size > 0 and bool((array == array.flat[0]).all())


def all_different(ctx: Context, value: Value) -> bool:
    """Whether no two elements of `value` can be seen to be equal."""
    known = ctx.known(value)
    if known is not None:
        return bool(np.unique(known).size == known.size)
    if operation(value, "Range") is not None:
        return True
    node = operation(value, "Cast", "Transpose", *VIEWS)
    return node is not None and all_different(ctx, operand(node))


# ---------------------------------------------------------------------------------------- progressions


def progression(ctx: Context, value: Value) -> Progression | None:
    """The arithmetic progression that the vector `value` can be seen to be, else None.

    One of symbolic length is a Range with a multiple and an offset, a static one is a constant.
    """
    stated = progression_of(value)
    if stated is not None:
        return stated
    known = ctx.known(value)
    if known is not None:
        steps = np.diff(known) if known.ndim == 1 else np.zeros(0)
        return Progression(int(known[0]), int(steps[0]), known.size) if _is_uniform(steps) else None
    node = operation(value, "Add", "Cast", "Mul", "Slice", *VIEWS)
    if node is None:
        return None
    if node.op_type == "Slice":
        return _reversed(ctx, node)
    return _computed(ctx, node) if node.op_type in ("Add", "Mul") else progression(ctx, operand(node))


def _computed(ctx: Context, node: ir.Node) -> Progression | None:
    """The sum or product of a progression and a number."""
    left, right = operand(node, 0), operand(node, 1)
    for some, other in ((left, right), (right, left)):
        found, number = progression(ctx, some), as_dimension(ctx, other)
        if found is not None and number is not None:
            if node.op_type == "Add":
                return Progression(found.start + number, found.step, found.count)
            return _multiple(found, number)
    return None


def _multiple(some: Progression, factor: Dim) -> Progression | None:
    """`some` times `factor`; None where that has no step known as a number."""
    return Progression(some.start * factor, some.step * factor, some.count) if isinstance(factor, int) else None


def _reversed(ctx: Context, node: ir.Node) -> Progression | None:
    """A progression that a Slice takes from its end to its beginning."""
    starts = ctx.known(operand(node, 1))
    steps = ctx.known(operand(node, 4)) if len(node.inputs) > 4 else None
    found = progression(ctx, operand(node))
    if found is None or starts is None or steps is None or list(starts) != [-1] or list(steps) != [-1]:
        return None
    return Progression(found.start + (found.count - 1) * found.step, -found.step, found.count)
