"""Cases of `arithmetic`."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax2onnx_core import Case
from jax2onnx_graph.build.builder import DtypeLike

from jax2onnx_lax._case_helpers import ASSUME_FINITE, Fn, Values, at_most, only_once
from jax2onnx_lax._compat import lax_function
from jax2onnx_lax.elementwise.arithmetic import one_minus_square, polynomial

__all__ = ["cases"]

_X = ("N", 5)
_AWAY, _EVEN = lax.RoundingMethod.AWAY_FROM_ZERO, lax.RoundingMethod.TO_NEAREST_EVEN


def _one(name: str, fn: Fn, operators: str, count: int = 1, values: Values = "finite") -> Case:
    """A primitive of floats that is exactly these operators."""
    return Case(name, fn, [_X] * count, covers=(name,), expect=operators, values=values)


def _typed(name: str, fn: Fn, covers: str, dtypes: Sequence[DtypeLike], *paths: str) -> Case:
    """A primitive of operands of fixed dtypes, that is exactly these paths of operators."""
    return Case(name, fn, [(_X, d) for d in dtypes], covers=(covers,), expect=paths, values="special",
                skip=only_once(*dtypes))  # fmt: skip


_polynomial = lax_function("polynomial", lambda x, coefficients: polynomial(x, *coefficients))


_BOOL = [np.bool_, np.bool_]
_MUL_OF_CAST = ["Cast -> Mul", "Cast -> Mul"]

cases = [
    _one("add", lax.add, "Add", 2, values="special"),
    _one("sub", lax.sub, "Sub", 2, values="special"),
    _one("mul", lax.mul, "Mul", 2, values="special"),
    Case("add_any", lambda x: jax.vjp(lambda v: (v, v), x)[1]((x, x))[0], [_X], covers=("add_any",), expect="Add"),
    _one("exp", lax.exp, "Exp", values="special"),
    _one("log", lax.log, "Log"),
    _one("logistic", lax.logistic, "Sigmoid", values="special"),
    _one("tanh", lax.tanh, "Tanh", values="special"),
    _one("sqrt", lax.sqrt, "Sqrt"),
    _one("sin", lax.sin, "Sin"),
    _one("cos", lax.cos, "Cos"),
    _one("tan", lax.tan, "Tan"),
    _one("asin", lax.asin, "Asin"),
    _one("acos", lax.acos, "Acos"),
    _one("atan", lax.atan, "Atan", values="special"),
    _one("sinh", lax.sinh, "Sinh", values="special"),
    _one("cosh", lax.cosh, "Cosh", values="special"),
    _one("asinh", lax.asinh, "Asinh", values="special"),
    _one("acosh", lax.acosh, "Acosh"),
    _one("atanh", lax.atanh, "Atanh", values="unit"),
    _one("erf", lax.erf, "Erf", values="special"),
    _one("abs", lax.abs, "Abs", values="special"),
    _one("neg", lax.neg, "Neg", values="special"),
    _one("floor", lax.floor, "Floor", values="special"),
    _one("ceil", lax.ceil, "Ceil", values="special"),
    _one("max", lax.max, "Max", 2, values="special"),
    _one("min", lax.min, "Min", 2, values="special"),
    _one("square", lax.square, "Mul", values="special"),
    _one("rsqrt", lax.rsqrt, "Sqrt -> Reciprocal"),
    _one("sign", lax.sign, "Sign", values="special"),
    _one("is_finite", lax.is_finite, "Abs -> Less", values="special"),
    _one("exp2", lax.exp2, "Mul -> Exp"),
    _one("pow", lax.pow, "Pow", 2, values="positive"),
    Case("one_minus_square", lax_function("one_minus_square", one_minus_square), [_X], covers=("one_minus_square",),
         expect=["Sub -> Mul", "Add -> Mul"]),
    Case("polynomial", lambda x: _polynomial(x, [1.0, 2.0, -3.0, 0.5]), [_X], covers=("polynomial",),
         expect="Mul -> Add -> Mul -> Add -> Mul -> Add"),
    # Power.
    Case("pow_of_negatives", lambda x: lax.pow(x, jnp.full_like(x, 3)), [_X], covers=("pow",), values="special",
         expect="Pow"),
    Case("pow_constant_2", lambda x: lax.pow(x, 2.0), [_X], covers=("pow",), expect="Mul"),
    Case("pow_constant_minus_1", lambda x: lax.pow(x, -1.0), [_X], covers=("pow",), expect="Reciprocal"),
    Case("pow_of_integers", lax.pow, [_X, (_X, np.int32)], covers=("pow",), expect="Cast -> Pow"),
    Case("integer_pow_2", lambda x: x**2, [_X], covers=("integer_pow",), expect="Mul"),
    Case("integer_pow_3", lambda x: x**3, [_X], covers=("integer_pow",), expect="Mul -> Mul"),
    Case("integer_pow_minus_1", lambda x: lax.integer_pow(x, -1), [_X], covers=("integer_pow",),
         expect="Reciprocal", values="special"),
    Case("integer_pow_minus_5", lambda x: lax.integer_pow(x, -5), [_X], covers=("integer_pow",), values="positive",
         expect="Mul -> Mul -> Mul -> Reciprocal"),
    Case("integer_pow_0", lambda x: lax.integer_pow(x, 0), [_X], covers=("integer_pow",),
         expect="Shape -> Concat -> Expand"),
    Case("integer_pow_of_int8", lambda x: lax.integer_pow(x, 5), [(_X, np.int8)], covers=("integer_pow",),
         values="special", expect="Mul -> Mul -> Mul"),
    # Rounding.
    Case("round_to_even", lambda x: lax.round(x, _EVEN), [_X], covers=("round",), values="special", expect="Round"),
    Case("round_away_from_zero", lambda x: lax.round(x, _AWAY), [_X], covers=("round",), values="special",
         expect=["Abs -> Floor -> Sub -> GreaterOrEqual -> Cast -> Add -> Mul", "Equal -> Where -> Less -> Where -> Cast -> Mul", "Reciprocal -> Where"]),
    Case("round_halves", lambda x: lax.round(0.5 * lax.round(x, _EVEN), _AWAY), [_X], covers=("round",),
         expect=at_most(20)),
    # Integers and booleans.
    _typed("add_of_uint8", lax.add, "add", [np.uint8] * 2, "Add"),
    _typed("mul_of_int64", lax.mul, "mul", [np.int64] * 2, "Mul"),
    _typed("mul_into_int32", lambda x, y: lax.mul(x, y, out_dtype=np.int32), "mul", [np.int8] * 2, *_MUL_OF_CAST),
    _typed("mul_into_float32", lambda x, y: lax.mul(x, y, out_dtype=np.float32), "mul", [jnp.bfloat16, np.int8],
           *_MUL_OF_CAST),
    _typed("mul_into_int8", lambda x, y: lax.mul(x, y, out_dtype=np.int8), "mul", [np.int32] * 2, *_MUL_OF_CAST),
    _typed("neg_of_uint32", lax.neg, "neg", [np.uint32], "Sub"),
    _typed("sign_of_int64", lax.sign, "sign", [np.int64], "Sign"),
    _typed("sign_of_float16", lax.sign, "sign", [np.float16], "Cast -> Sign -> Cast"),
    _typed("max_of_int16", lax.max, "max", [np.int16] * 2, "Cast -> Max -> Cast", "Cast -> Max"),
    _typed("min_of_int64", lax.min, "min", [np.int64] * 2, "Min"),
    _typed("max_of_uint64", lax.max, "max", [np.uint64] * 2, "Max"),
    _typed("abs_of_int8", lax.abs, "abs", [np.int8], "Abs"),
    _typed("max_of_bool", lax.max, "max", _BOOL, "Or"),
    _typed("min_of_bool", lax.min, "min", _BOOL, "And"),
    _typed("and_of_bool", lax.bitwise_and, "and", _BOOL, "And"),
    _typed("or_of_bool", lax.bitwise_or, "or", _BOOL, "Or"),
    _typed("xor_of_bool", lax.bitwise_xor, "xor", _BOOL, "Xor"),
    _typed("not_of_bool", lax.bitwise_not, "not", [np.bool_], "Not"),
    _typed("and_of_int32", lax.bitwise_and, "and", [np.int32] * 2, "BitwiseAnd"),
    _typed("or_of_uint16", lax.bitwise_or, "or", [np.uint16] * 2, "BitwiseOr"),
    _typed("xor_of_int64", lax.bitwise_xor, "xor", [np.int64] * 2, "BitwiseXor"),
    _typed("not_of_int8", lax.bitwise_not, "not", [np.int8], "BitwiseNot"),
    # Selection.
    Case("select", lax.select_n, [(_X, np.bool_), _X, _X], covers=("select_n",), values="special", expect="Where"),
    Case("select_of_bool", lax.select_n, [(_X, np.bool_)] * 3, covers=("select_n",),
         expect=["Cast -> Where -> Cast", "Cast -> Where"]),
    Case("select_by_scalar", lax.select_n, [((), np.bool_), _X, _X], covers=("select_n",), expect="Where"),
    Case("select_among_3", lax.select_n, [(_X, np.int32), _X, _X, _X], covers=("select_n",), values="special",
         expect=["LessOrEqual -> Where -> Where", "LessOrEqual -> Where"]),
    Case("select_among_the_same", lambda which, x: lax.select_n(which, x, x, x) + 1, [(_X, np.int32), _X], covers=("select_n",),
         expect="Add"),
    Case("select_the_only", lambda which, x: lax.select_n(which, x) + 1, [(_X, np.int32), _X], covers=("select_n",),
         expect="Add"),
    Case("clamp", lambda x: lax.clamp(-0.5, x, 1.5), [_X], covers=("clamp",), values="special", expect="Clip"),
    Case("clamp_by_tensors", lax.clamp, [_X, _X, _X], covers=("clamp",), values="special", expect="Max -> Min"),
    Case("clamp_by_unknown_scalars", lax.clamp, [(), _X, ()], covers=("clamp",), values="special", expect="Max -> Min"),
    _typed("clamp_of_int64", lambda x: lax.clamp(jnp.int64(-3), x, jnp.int64(4)), "clamp", [np.int64], "Clip"),
    Case("clamp_of_bool", lax.clamp, [(_X, np.bool_)] * 3, covers=("clamp",), expect="Or -> And"),
    Case("clamp_by_unknown_finite_scalars", lambda x, low, high: lax.clamp(low, x, high), [_X, (), ()], covers=("clamp",),
         expect="Clip", options=ASSUME_FINITE),
]  # fmt: skip
