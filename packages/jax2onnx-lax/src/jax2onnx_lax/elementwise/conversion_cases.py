"""Cases of `conversion`."""

from __future__ import annotations

from collections.abc import Mapping

import jax
import ml_dtypes
import numpy as np
from jax import lax
from jax2onnx_core import Case, expect_graph
from jax2onnx_graph.build.builder import DtypeLike

from jax2onnx_lax._case_helpers import ASSUME_FINITE, Expect, Fn, at_most, only_once

__all__ = ["cases"]

_X = ("N", 11)
_FLOATS = (np.float16, ml_dtypes.bfloat16, np.float32, np.float64)
# NaN becomes 0, and what is too large the largest number, which 64 bits need a comparison for.
_SATURATED = "IsNaN -> Where -> Clip -> Cast"
_SATURATED_64 = ["IsNaN -> Where -> GreaterOrEqual -> Where", "Clip -> Cast -> Where"]
_TO_FLOAT8: Mapping[DtypeLike, Expect] = {
    ml_dtypes.float8_e4m3fn: "Abs -> Greater -> Where -> Cast",
    ml_dtypes.float8_e4m3fnuz: "Cast",
    ml_dtypes.float8_e5m2: ["Abs -> GreaterOrEqual -> Where -> Cast", "Mul -> Where"],
    ml_dtypes.float8_e5m2fnuz: "Cast",
}


def _name(dtype: DtypeLike) -> str:
    return np.dtype(dtype).name


def _to(dtype: DtypeLike) -> Fn:
    return lambda x: lax.convert_element_type(x, dtype)


def _case(source: DtypeLike, target: DtypeLike, expect: Expect) -> Case:
    return Case(
        f"{_name(source)}_to_{_name(target)}", _to(target), [(_X, source)], covers=("convert_element_type",),
        expect=expect, values="special",
        skip=only_once(source, target),
    )  # fmt: skip


def _same(x: jax.Array) -> jax.Array:
    return lax.convert_element_type(x, x.dtype) + 1


def _reduce(exponent_bits: int, mantissa_bits: int) -> Fn:
    return lambda x: lax.reduce_precision(x, exponent_bits, mantissa_bits)


# All pairs are in tests/elementwise/test_conversion.py.
cases = [
    _case(np.float32, np.bool_, "Cast"),
    *(_case(np.float32, t, _SATURATED) for t in (np.int8, np.int16, np.uint8, np.uint16)),
    *(_case(np.float32, t, f"Cast -> {_SATURATED}") for t in (np.int32, np.uint32)),
    _case(np.float64, np.int32, _SATURATED),
    *(_case(f, np.int64, _SATURATED_64) for f in (np.float32, np.float64)),
    *(_case(f, np.uint64, at_most(10, IsNaN=1)) for f in (np.float32, np.float64)),
    *(_case(s, t, f"Cast -> {_SATURATED}") for s in (np.float16, ml_dtypes.bfloat16) for t in (np.int8, np.uint32)),
    *(_case(s, t, "Cast") for s in _FLOATS for t in _FLOATS if s != t and (s, t) != (np.float64, np.float16)),
    _case(np.float64, np.float16, at_most(20, Cast=1)),
    *(_case(s, t, "Cast") for s in (np.bool_, np.uint64) for t in (np.int8, np.int32, np.float32)),
    *(_case(np.float32, t, expect) for t, expect in _TO_FLOAT8.items()),
    *(_case(s, np.int32, f"Cast -> Cast -> {_SATURATED}") for s in _TO_FLOAT8),
    _case(ml_dtypes.float8_e5m2, ml_dtypes.float8_e4m3fn, "Cast -> Abs -> Greater -> Where -> Cast"),
    Case("to_the_same_type", _same, [_X], covers=("convert_element_type",), expect="Add"),
    Case("stage", lambda x: lax.stage(x) + 1, [_X], covers=("stage",), expect="Add"),
    Case("reduce_precision_to_bfloat16", _reduce(8, 7), [_X], covers=("reduce_precision",), values="special",
         expect="Cast -> Cast"),
    Case("reduce_precision_to_float16", _reduce(5, 10), [_X], covers=("reduce_precision",), values="special",
         expect=at_most(30)),
    Case("reduce_precision_to_float8", _reduce(4, 3), [_X], covers=("reduce_precision",), values="special",
         expect=at_most(30)),
    Case("reduce_precision_of_the_exponent", _reduce(6, 52), [_X], covers=("reduce_precision",), values="special",
         expect=["Cast -> Abs -> GreaterOrEqual -> Cast -> Mul -> Mul -> Where -> Cast", "GreaterOrEqual -> Where"]),
    Case("reduce_precision_of_the_mantissa", _reduce(11, 3), [_X], covers=("reduce_precision",), values="special",
         expect=at_most(30)),
    Case("reduce_precision_to_more", lambda x: lax.reduce_precision(x, 11, 52) + 1, [_X], covers=("reduce_precision",),
         expect="Add"),
    Case("finite_to_int32", lambda x: lax.convert_element_type(x, np.int32), [_X], covers=("convert_element_type",), expect=expect_graph(absent=["IsNaN"]), options=ASSUME_FINITE),
    Case("finite_to_float8", lambda x: lax.convert_element_type(x.astype(ml_dtypes.float8_e4m3fn), np.float32), [_X], covers=("convert_element_type",),
         expect="Cast -> Cast", options=ASSUME_FINITE),
]  # fmt: skip
