"""Facts about element types: whether one holds all values of another, and the first opset that has each."""

from __future__ import annotations

__all__ = ["first_opset", "is_exact_attribute", "is_exact_cast", "type_name", "width"]

import functools
import math

import ml_dtypes
import numpy as np
import onnx

from jax2onnx_graph._ir import ir

_D = ir.DataType

_LOWEST_OPSET = 18


@functools.cache
def first_opset(dtype: ir.DataType | None) -> int:
    """The first opset whose operators take an element type; 0 for those that all opsets from 18 on have."""
    name = "" if dtype is None else f"tensor({dtype.name.lower()})"
    for opset in range(_LOWEST_OPSET, onnx.defs.onnx_opset_version() + 1):
        schema = onnx.defs.get_schema("Cast", opset, "")
        if any(name in constraint.allowed_type_strs for constraint in schema.type_constraints):
            return opset if opset > _LOWEST_OPSET else 0
    return 0


def type_name(dtype: ir.DataType) -> str:
    """The name of an element type in NumPy's words: "float32".

    >>> type_name(ir.DataType.FLOAT), type_name(ir.DataType.STRING)
    ('float32', 'string')
    """
    if dtype in (_D.STRING, _D.UNDEFINED):
        return dtype.name.lower()
    return str(dtype.numpy().name)


def width(dtype: ir.DataType) -> int:
    """The bits of an element type that carry its value: 1 for a boolean."""
    return 1 if dtype == _D.BOOL else dtype.bitwidth


def is_exact_attribute(number: float, dtype: ir.DataType | None) -> bool:
    """Whether an attribute, which is float32 in ONNX, holds a number as exactly as a tensor of `dtype` does.

    >>> is_exact_attribute(0.1, ir.DataType.FLOAT), is_exact_attribute(0.1, ir.DataType.DOUBLE)
    (True, False)
    """
    with np.errstate(over="ignore"):
        return dtype != _D.DOUBLE or math.isnan(number) or float(np.float32(number)) == number


@functools.cache
def is_exact_cast(source: ir.DataType, target: ir.DataType) -> bool:
    """Whether every value of `source` is a value of `target`, so that a cast there and back changes nothing.

    Infinities, NaN (of any payload) and the sign of zero are values. No number is a value of BOOL.
    """
    if source == target:
        return True
    if source.is_floating_point():
        return target.is_floating_point() and _float_fits(source, target)
    if source != _D.BOOL and not source.is_integer():
        return False
    if target.is_floating_point():
        return _integer_fits_float(source, target)
    return target.is_integer() and _integer_fits(source, target)


def _is_signed(dtype: ir.DataType) -> bool:
    return dtype != _D.BOOL and dtype.is_signed()


def _integer_fits(source: ir.DataType, target: ir.DataType) -> bool:
    if _is_signed(source) and not _is_signed(target):
        return False
    return width(source) - _is_signed(source) <= width(target) - _is_signed(target)


def _integer_fits_float(source: ir.DataType, target: ir.DataType) -> bool:
    """Significands hold every integer of as many bits; the lowest negative one is a power of two."""
    bits, info = width(source) - _is_signed(source), ml_dtypes.finfo(target.numpy())
    largest = 1 << bits if _is_signed(source) else (1 << bits) - 1
    if not _holds_zero(target) or (_is_signed(source) and not info.min < 0):
        return False
    return bits <= info.nmant + 1 and largest <= float(info.max) and float(info.smallest_subnormal) <= 1


def _float_fits(source: ir.DataType, target: ir.DataType) -> bool:
    narrow, wide = (ml_dtypes.finfo(dtype.numpy()) for dtype in (source, target))
    return (
        narrow.nmant <= wide.nmant
        and float(narrow.smallest_subnormal) >= float(wide.smallest_subnormal)
        and float(narrow.max) <= float(wide.max)
        and float(narrow.min) >= float(wide.min)
        and _special_values(source) <= _special_values(target)
    )


@functools.cache
def _special_values(dtype: ir.DataType) -> frozenset[str]:
    """The values among infinity, NaN, zero and minus zero that a float type has."""
    kept = np.array([np.inf, np.nan, 0.0, -0.0]).astype(dtype.numpy()).astype(np.float64)
    found = {
        "infinity": np.isinf(kept[0]), "nan": np.isnan(kept[1]), "zero": kept[2] == 0,
        "minus zero": kept[3] == 0 and np.signbit(kept[3]),
    }  # fmt: skip
    return frozenset(name for name, has in found.items() if has)


def _holds_zero(dtype: ir.DataType) -> bool:
    return "zero" in _special_values(dtype)
