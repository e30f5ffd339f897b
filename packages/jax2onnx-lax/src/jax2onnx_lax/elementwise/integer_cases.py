"""Cases of `integer`."""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp
import ml_dtypes
import numpy as np
from jax import lax
from jax2onnx_core import Case
from jax2onnx_core.plugins.cases import ExpectGraph, expect_graph
from jax2onnx_graph.build.builder import DtypeLike

from jax2onnx_lax._case_helpers import Expect, Fn, at_most, only_once

__all__ = ["cases"]

_SIGNED = (np.int8, np.int16, np.int32, np.int64)
_UNSIGNED = (np.uint8, np.uint16, np.uint32, np.uint64)
_DTYPES = _SIGNED + _UNSIGNED
_X = ("N", 9)


def _case(name: str, fn: Fn, covers: str, dtypes: Sequence[DtypeLike], expect: Expect) -> Case:
    return Case(name, fn, [(_X, d) for d in dtypes], covers=(covers,), expect=expect, values="special",
                skip=only_once(*dtypes))  # fmt: skip


def _each(name: str, fn: Fn, expect: ExpectGraph, operands: int = 2) -> list[Case]:
    return [_case(f"{name}_of_{np.dtype(d).name}", fn, name, [d] * operands, expect) for d in _DTYPES]


def _by_constant(fn: Fn, value: int) -> Fn:
    return lambda x: fn(x, jnp.full_like(x, value))


cases = [
    Case("div_of_floats", lax.div, [_X, _X], covers=("div",), values="special", expect="Div"),
    Case("reciprocal", lambda x: 1 / x, [_X], covers=("div",), values="special", expect="Reciprocal"),
    Case("rem_of_floats", lax.rem, [_X, _X], covers=("rem",), values="special", expect="Mod"),
    *_each("div", lax.div, at_most(12, Div=1)),
    *_each("rem", lax.rem, at_most(12, Div=1, Mul=1, Sub=1)),
    *_each("mulhi", lax.mulhi, at_most(30)),
    *_each("shift_left", lax.shift_left, at_most(12, BitShift=1, Where=1)),
    *_each("shift_right_logical", lax.shift_right_logical, at_most(12, BitShift=1, Where=1)),
    *_each("shift_right_arithmetic", lax.shift_right_arithmetic, at_most(20, BitShift=2, BitwiseXor=2, Where=1)),
    *_each("population_count", lax.population_count, at_most(25, BitwiseAnd=4, Sub=1), operands=1),
    *_each("clz", lax.clz, at_most(40, BitwiseAnd=4, Sub=2), operands=1),
    _case("div_by_3", lambda x: lax.div(x, jnp.int32(3)), "div", [np.int32], "Div"),
    _case("div_by_minus_1", lambda x: lax.div(x, jnp.int32(-1)), "div", [np.int32],
          "Equal -> And -> Or -> Where -> Div"),
    _case("div_by_0", lambda x: lax.div(x, jnp.int32(0)), "div", [np.int32],
          "Equal -> And -> Or -> Where -> Div -> Where"),
    _case("rem_by_3", lambda x: lax.rem(x, jnp.int32(3)), "rem", [np.int32], "Mod"),
    _case("rem_of_1", lambda x: (lax.rem(jnp.int32(1), x.ravel()[0]), lax.div(jnp.int32(1), x.ravel()[1]) * x.ravel()[2]), "rem",
          [np.int32], expect_graph(absent=["Div"])),
    _case("rem_of_int64_by_3", lambda x: lax.rem(x, jnp.int64(3)), "rem", [np.int64], "Div -> Mul -> Sub"),
    _case("rem_of_uint64_by_3", lambda x: lax.rem(x, jnp.uint64(3)), "rem", [np.uint64], "Mod"),
    _case("floor_division", lambda x, y: x // y, "div", [np.int32, np.int32], at_most(20, Div=1)),
    _case("modulus", lambda x, y: x % y, "rem", [np.int16, np.int16], at_most(30, Div=1)),
    _case("shift_left_by_3", _by_constant(lax.shift_left, 3), "shift_left", [np.uint32], "BitShift"),
    _case("shift_left_of_int32_by_3", _by_constant(lax.shift_left, 3), "shift_left", [np.int32], "Mul"),
    _case("shift_left_of_4_bits", lambda x: x << jnp.ones((), x.dtype), "shift_left", [ml_dtypes.int4], at_most(6, Mul=1)),
    _case("shift_right_of_4_bits", lambda x: x >> jnp.ones((), x.dtype), "shift_right_arithmetic", [ml_dtypes.int4],
          at_most(20, BitShift=2, BitwiseXor=2)),
    _case("shift_left_by_width", _by_constant(lax.shift_left, 32), "shift_left", [np.int32],
          ["Cast -> BitShift -> Where -> Cast", "BitwiseAnd -> BitShift"]),
    _case("shift_right_by_9", _by_constant(lax.shift_right_logical, 9), "shift_right_logical", [np.uint32], "BitShift"),
    _case("shift_right_by_minus_1", _by_constant(lax.shift_right_arithmetic, -1), "shift_right_arithmetic",
          [np.int32], at_most(10, BitShift=2, BitwiseXor=2)),
]  # fmt: skip
