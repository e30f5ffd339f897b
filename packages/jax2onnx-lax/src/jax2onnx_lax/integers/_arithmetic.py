"""Arithmetic on integers."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from jax2onnx_core import Dim
from jax2onnx_core.jaxprs import definitely_le, is_positive, is_static
from jax2onnx_core.lowering.definitions import Definition

from jax2onnx_lax._compat import max_dim, min_dim
from jax2onnx_lax.dtypes import is_bool
from jax2onnx_lax.integers._domain import Affine, Integers, Relation, number
from jax2onnx_lax.integers._results import Transfer, affine_pair, affine_result

__all__ = ["TRANSFERS", "added", "difference", "product"]


def _sum(definition: Definition, x: Integers, y: Integers, sign: int = 1) -> Integers | None:
    if is_bool(definition.aval.dtype):
        return None
    forms = affine_pair(definition, x, y)
    if forms is not None:
        return dataclasses.replace(affine_result(definition, added(*forms, sign)), relations=_shifted(x, y, sign))
    low, high = (y.low, y.high) if sign > 0 else (-y.high, -y.low)
    whole = [aval.shape == definition.aval.shape for aval in definition.avals_in]  # a scalar may be repeated
    distinct = (x.is_distinct and y.number is not None and whole[0]) or (
        y.is_distinct and x.number is not None and whole[-1]
    )
    return Integers(x.low + low, x.high + high, is_distinct=distinct, relations=_shifted(x, y, sign))


def added(x: Affine, y: Affine, sign: int) -> Affine:
    """The sum of two affine forms, or with `sign` -1 their difference."""
    steps = tuple(a + sign * b for a, b in zip(x.steps, y.steps, strict=True))
    length = x.length if x.factor else y.length
    return Affine(x.offset + sign * y.offset, steps, x.factor + sign * y.factor, length)


def _shifted(x: Integers, y: Integers, sign: int) -> tuple[Relation, ...]:
    """How a sum or difference follows from an operand that a number is added to."""
    if y.number is not None:
        return (Relation(x, "sum", sign * y.number),)
    return (Relation(y, "sum", x.number),) if x.number is not None and sign > 0 else ()


def difference(definition: Definition, x: Integers, y: Integers) -> Integers | None:
    """x - y."""
    return _sum(definition, x, y, -1)


def _negative(definition: Definition, x: Integers) -> Integers | None:
    return difference(definition, number(0), x)


def product(definition: Definition, x: Integers, y: Integers) -> Integers | None:
    """x · y."""
    forms = affine_pair(definition, x, y)
    for form, factor in zip(forms or (), reversed(forms or ()), strict=True):
        if isinstance(factor.number, int) or (factor.number is not None and form.number is not None):
            return affine_result(definition, _scaled(form, factor.number))
    if x is y:
        return _square(definition, x)
    corners = [a * b for a in (x.low, x.high) for b in (y.low, y.high)]
    if all(map(is_static, corners)):
        numbers = [int(corner) for corner in corners if is_static(corner)]
        return Integers(min(numbers), max(numbers))
    if definitely_le(0, x.low) and definitely_le(0, y.low):
        return Integers(x.low * y.low, x.high * y.high)
    return None


def _scaled(form: Affine, factor: Dim) -> Affine:
    if isinstance(factor, int):
        steps = tuple(step * factor for step in form.steps)
        return Affine(form.offset * factor, steps, form.factor * factor, form.length)
    return form._replace(offset=form.offset * factor)


def _square(definition: Definition, x: Integers) -> Integers:
    size = _magnitude(x)
    return Integers(x.low * x.low if definitely_le(0, x.low) else 0, size * size)


def _magnitude(x: Integers) -> Dim:
    """The greatest magnitude of an element."""
    return max_dim(max_dim(x.high, -x.low), 0)


def _power(definition: Definition, x: Integers) -> Integers | None:
    exponent = definition.params["y"]
    if exponent == 2:
        return _square(definition, x)
    if exponent < 0 or exponent > 64 or not definitely_le(0, x.low):
        return None
    return Integers(x.low**exponent, x.high**exponent) if is_static(x.low) and is_static(x.high) else None


def _absolute(definition: Definition, x: Integers) -> Integers:
    if definitely_le(0, x.low):
        return x
    return Integers(0, _magnitude(x))


def _sign(definition: Definition, x: Integers) -> Integers:
    low, high = (1 if definitely_le(1, x.low) else 0 if definitely_le(0, x.low) else -1), 1
    if definitely_le(x.high, 0):
        high = -1 if definitely_le(x.high, -1) else 0
    form = Affine(low, (0,) * len(definition.aval.shape)) if low == high else None
    return Integers(low, high, form, relations=(Relation(x, "sign"),))


def _quotient(definition: Definition, x: Integers, y: Integers) -> Integers | None:
    """Truncated toward zero; all bits of a quotient by zero are ones."""
    if not is_positive(y.low):
        return None
    if definitely_le(0, x.low):
        if definitely_le(x.high + 1, y.low):
            return number(0, len(definition.aval.shape))
        return Integers(x.low // y.high, x.high // y.low)
    if definitely_le(x.high, 0):
        return Integers(-(-x.low // y.low), -(-x.high // y.high))
    return Integers(min_dim(-(-x.low // y.low), 0), max_dim(x.high // y.low, 0))


def _remainder(definition: Definition, x: Integers, y: Integers) -> Integers | None:
    """It has the sign of the dividend; that of a division by zero is the dividend."""
    if not is_positive(y.low):
        return Integers(min_dim(x.low, 0), max_dim(x.high, 0))
    if definitely_le(0, x.low):
        if definitely_le(x.high + 1, y.low) and _is_of_one_shape(definition):
            return x
        high = x.high if definitely_le(x.high, y.high - 1) else y.high - 1
        return Integers(0, high, relations=(Relation(x, "part"),))
    low = x.low if definitely_le(1 - y.high, x.low) else 1 - y.high
    high = x.high if definitely_le(x.high, y.high - 1) else y.high - 1
    return Integers(min_dim(low, 0), max_dim(high, 0))


def _smallest(definition: Definition, x: Integers, y: Integers) -> Integers:
    for one, other in ((x, y), (y, x)):
        if definitely_le(one.high, other.low) and _is_of_one_shape(definition):
            return one
    return Integers(min_dim(x.low, y.low), min_dim(x.high, y.high))


def _largest(definition: Definition, x: Integers, y: Integers) -> Integers:
    for one, other in ((x, y), (y, x)):
        if definitely_le(other.high, one.low) and _is_of_one_shape(definition):
            return one
    return Integers(max_dim(x.low, y.low), max_dim(x.high, y.high))


def _is_of_one_shape(definition: Definition) -> bool:
    """Whether no operand is repeated, so that one may stand for the result."""
    return all(tuple(aval.shape) == tuple(definition.aval.shape) for aval in definition.avals_in)


def _clamped(definition: Definition, low: Integers, x: Integers, high: Integers) -> Integers:
    """min(max(x, low), high): where the limits are swapped it is the upper one."""
    if definitely_le(low.high, x.low) and definitely_le(x.high, high.low):
        return x
    return Integers(min_dim(max_dim(x.low, low.low), high.low), min_dim(max_dim(x.high, low.high), high.high))


#: Primitive → what is known of its result.
TRANSFERS: Mapping[str, Transfer] = {
    "abs": _absolute,
    "add": _sum,
    "add_any": _sum,
    "clamp": _clamped,
    "div": _quotient,
    "integer_pow": _power,
    "max": _largest,
    "min": _smallest,
    "mul": product,
    "neg": _negative,
    "rem": _remainder,
    "sign": _sign,
    "square": _square,
    "sub": difference,
}
