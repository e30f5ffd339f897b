"""What is known of the integers that a value of the graph holds, from the equations that give it."""

from __future__ import annotations

import dataclasses

import jax
import numpy as np
from jax2onnx_core import Context, Dim, Value
from jax2onnx_core.jaxprs import is_static

from jax2onnx_lax.integers._domain import Integers, constant, holds_integers, unknown
from jax2onnx_lax.integers._transfer import result

__all__ = [
    "Progression",
    "all_different",
    "as_dimension",
    "holds_number",
    "integers",
    "is_in_range",
    "is_zero",
    "one_value",
    "progression",
    "set_integers",
]

# A key of `Value.meta`.
_INTEGERS = "jax2onnx_lax.integers"

# A larger constant is not searched for zeros.
_COMPARED_BYTES = 1 << 16

# Primitives whose result has the elements of the first operand, in another shape or dtype, and nothing else.
_VIEWS = frozenset({"broadcast_in_dim", "convert_element_type", "copy", "reshape", "squeeze", "transpose"})


@dataclasses.dataclass(frozen=True)
class Progression:
    """The vector start, start + step, …, start + (count - 1) · step."""

    start: Dim
    step: int
    count: Dim


def set_integers(value: Value, known: Integers) -> None:
    """State what is known of a value that no equation gives, such as the number of an iteration."""
    value.meta[_INTEGERS] = known


def integers(ctx: Context, value: Value) -> Integers:
    """Find the known facts of an array of integers or booleans, once.

    Args:
      ctx: the context of the rule.
      value: the array.
    """
    pending = [value]
    while pending:
        last = pending[-1]
        missing = [] if _INTEGERS in last.meta else _unread(ctx, last)
        if missing:
            pending += missing
            continue
        if _INTEGERS not in last.meta:
            last.meta[_INTEGERS] = _found(ctx, last)
        pending.pop()
    known: Integers = value.meta[_INTEGERS]
    return known


def _unread(ctx: Context, value: Value) -> list[Value]:
    """The operands of the equation that gives a value of which has not been asked yet what is known."""
    definition = None if value.const_value is not None else ctx.definition(value)
    if definition is None:
        return []
    operands = zip(definition.operands, definition.avals_in, strict=False)
    return [x for x, aval in operands if holds_integers(aval) and _INTEGERS not in x.meta]


def _found(ctx: Context, value: Value) -> Integers:
    known, definition = ctx.known(value), ctx.definition(value)
    if known is not None:
        return constant(known)
    if definition is None or not holds_integers(definition.aval):
        return unknown(jax.ShapeDtypeStruct(ctx.known_dims(value), ctx.dtype(value)))
    operands = zip(definition.operands, definition.avals_in, strict=False)
    return result(definition, [x.meta[_INTEGERS] if holds_integers(aval) else None for x, aval in operands])


# ---------------------------------------------------------------------------------------- questions


def is_in_range(ctx: Context, value: Value, low: Dim, high: Dim) -> bool:
    """Whether low <= element <= high is known for every element of an array and all values of symbols.

    Args:
      ctx: the context of the rule.
      value: an array of integers.
      low: the smallest allowed element.
      high: the largest allowed element.
    """
    return integers(ctx, value).is_within(low, high)


def as_dimension(ctx: Context, value: Value) -> Dim | None:
    """The number or symbolic dimension that all elements of an array of integers are known to be, else None."""
    return integers(ctx, value).number


def holds_number(ctx: Context, value: Value, number: Dim) -> bool:
    """Whether all elements of an array are known to equal a number.

    Args:
      ctx: the context of the rule.
      value: an array of integers.
      number: the number, which may be symbolic.
    """
    held = as_dimension(ctx, value)
    return held is not None and bool(held == number)


def progression(ctx: Context, value: Value) -> Progression | None:
    """The arithmetic progression of two or more elements that a vector is known to be, else None."""
    form, dims = integers(ctx, value).affine, ctx.known_dims(value)
    if form is None or form.factor or len(dims) != 1 or (is_static(dims[0]) and dims[0] < 2):
        return None
    return Progression(form.offset, form.steps[0], dims[0])


def all_different(ctx: Context, value: Value) -> bool:
    """Whether no two elements of an array of integers can be equal."""
    known = ctx.known(value)
    return integers(ctx, value).is_distinct if known is None else bool(np.unique(known).size == known.size)


def one_value(ctx: Context, value: Value) -> Value | None:
    """The scalar that every element of `value` equals, if one can be seen; else None."""
    known = ctx.known(value)
    if known is not None:
        is_uniform = known.size > 0 and bool((known == known.flat[0]).all())
        return ctx.constant(known.flat[0]) if is_uniform else None
    definition = ctx.definition(value)
    is_view = definition is not None and definition.primitive in _VIEWS
    if all(size == 1 for size in ctx.known_dims(value)):
        inner = None
        if definition is not None and is_view and all(size == 1 for size in definition.avals_in[0].shape):
            inner = one_value(ctx, definition.operands[0])
        return ctx.reshape(value, ()) if inner is None else ctx.cast(inner, ctx.dtype(value))
    if definition is None or not is_view:
        return None
    scalar = one_value(ctx, definition.operands[0])
    return None if scalar is None else ctx.cast(scalar, ctx.dtype(value))


def is_zero(ctx: Context, value: Value) -> bool:
    """Whether all elements of `value` can be seen to be zero, none of them -0."""
    known = ctx.known(value)
    if known is not None:
        return known.nbytes <= _COMPARED_BYTES and not known.tobytes().strip(b"\0")
    definition = ctx.definition(value)
    if definition is None or definition.primitive not in _VIEWS:
        return False
    return is_zero(ctx, definition.operands[0])
