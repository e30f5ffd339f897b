"""Operations on the bits of integers."""

from __future__ import annotations

from collections.abc import Mapping

from jax2onnx_core import Dim
from jax2onnx_core.jaxprs import definitely_le, is_static
from jax2onnx_core.lowering.definitions import Definition

from jax2onnx_lax.dtypes import is_bool, is_signed
from jax2onnx_lax.integers._arithmetic import difference, product
from jax2onnx_lax.integers._booleans import both, inverted, unequal
from jax2onnx_lax.integers._domain import Integers, limits, number
from jax2onnx_lax.integers._results import Transfer

__all__ = ["TRANSFERS"]


def _and(definition: Definition, x: Integers, y: Integers) -> Integers | None:
    if is_bool(definition.aval.dtype):
        return both(definition, x, y)
    positive = [mask for mask in (x, y) if definitely_le(0, mask.low)]
    return Integers(0, min((mask.high for mask in positive), key=_static_first)) if positive else None


def _static_first(high: Dim) -> tuple[bool, int]:
    return (False, int(high)) if is_static(high) else (True, 0)


def _or(definition: Definition, x: Integers, y: Integers) -> Integers | None:
    if is_bool(definition.aval.dtype):
        return inverted(both(definition, inverted(x), inverted(y)))
    return _joined_bits(x, y)


def _xor(definition: Definition, x: Integers, y: Integers) -> Integers | None:
    return unequal(definition, x, y) if is_bool(definition.aval.dtype) else _joined_bits(x, y)


def _joined_bits(x: Integers, y: Integers) -> Integers | None:
    if not (definitely_le(0, x.low) and definitely_le(0, y.low) and is_static(x.high) and is_static(y.high)):
        return None
    return Integers(0, (1 << int(max(x.high, y.high)).bit_length()) - 1)


def _not(definition: Definition, x: Integers) -> Integers | None:
    dtype = definition.aval.dtype
    if is_bool(dtype):
        return inverted(x)
    return difference(definition, number(-1 if is_signed(dtype) else limits(dtype)[1]), x)


def _shifted_right(definition: Definition, x: Integers, y: Integers) -> Integers | None:
    if not definitely_le(0, x.low):
        return None
    if isinstance(y.number, int) and 0 <= y.number < limits(definition.aval.dtype)[1].bit_length():
        return Integers(x.low // (1 << y.number), x.high // (1 << y.number))
    return Integers(0, x.high)


def _shifted_right_by_sign(definition: Definition, x: Integers, y: Integers) -> Integers | None:
    """It fills with the highest bit, of unsigned integers too."""
    _, greatest = limits(definition.aval.dtype)
    if not is_signed(definition.aval.dtype) and not definitely_le(x.high, greatest // 2):
        return None
    return _shifted_right(definition, x, y)


def _shifted_left(definition: Definition, x: Integers, y: Integers) -> Integers | None:
    if isinstance(y.number, int) and 0 <= y.number < limits(definition.aval.dtype)[1].bit_length():
        return product(definition, x, number(1 << y.number))
    return None


def _bit_count(definition: Definition, x: Integers) -> Integers:
    least, greatest = limits(definition.aval.dtype)
    return Integers(0, (greatest - least).bit_length())


#: Primitive → what is known of its result.
TRANSFERS: Mapping[str, Transfer] = {
    "and": _and,
    "clz": _bit_count,
    "not": _not,
    "or": _or,
    "population_count": _bit_count,
    "shift_left": _shifted_left,
    "shift_right_arithmetic": _shifted_right_by_sign,
    "shift_right_logical": _shifted_right,
    "xor": _xor,
}
