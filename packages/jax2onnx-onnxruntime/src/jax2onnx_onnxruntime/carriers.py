"""Through which wider type an operator may be computed without changing its values.

What a carrier must preserve depends on what the operator does with its operands:

* `MOVE`: results are some of the operands' values (Gather, Where, Pad). Any one-to-one map serves.
* `RING`: sums and products, which commute with reduction modulo 2ⁿ (Add, ReduceSum, CumSum, BitwiseAnd).
  A wider integer type serves, and one of equal width; the cast back wraps around as the narrow type would.
* `ORDER`: comparisons, minima and maxima. The map must keep the order.
* `VALUE`: everything else on integers (Div, Mod, BitShift); the wider type must hold the same number.
* `FLOAT`: floating-point functions; computed in a wider type and rounded once. (For +, −, ×, ÷ and √
  this is the correctly rounded result, as float32 has more than 2p + 2 bits of float16 and bfloat16:
  Figueroa, "When is double rounding innocuous?", 1995.)
* `TRUTH`: only whether a value is zero (NonZero).
"""

from __future__ import annotations

import enum
import functools
from typing import NamedTuple

import onnx_ir as ir

from jax2onnx_onnxruntime.kernels import kernels, signature

__all__ = ["Carrier", "Embedding", "Kind", "find_carrier", "holds", "keeps_float_values", "kind_of"]

T = ir.DataType


class Kind(enum.Enum):
    """What an operator does with the values of one of its type variables."""

    MOVE = enum.auto()
    RING = enum.auto()
    ORDER = enum.auto()
    VALUE = enum.auto()
    FLOAT = enum.auto()
    TRUTH = enum.auto()


class Embedding(enum.Enum):
    """How a value of the narrow type stands in the carrier.

    `EXACT`: the same number. `RESIDUE`: a number congruent to it modulo 2ⁿ, n its width.
    `FLIPPED`: its bits with the sign bit inverted, which maps unsigned order to signed order.
    """

    EXACT = enum.auto()
    RESIDUE = enum.auto()
    FLIPPED = enum.auto()


class Carrier(NamedTuple):
    """A carrier type, how operands must stand in it, and how results then do."""

    dtype: ir.DataType
    operands: tuple[Embedding, ...]
    result: Embedding | None
    """From operands that are all `EXACT` or all `FLIPPED`; a `RESIDUE` among them makes it one.

    None: the result needs the cast back before anything else may use it (rounding)."""


_MOVE = """CenterCropPad Compress Concat DepthToSpace Expand Flatten Gather GatherElements GatherND Identity Pad
Reshape ReverseSequence ScatterElements ScatterND Shape Size Slice SpaceToDepth Split Squeeze TensorScatter Tile
Transpose Trilu Unsqueeze Where ConstantOfShape OneHot"""
_RING = """Add Sub Mul Neg Sum ReduceSum ReduceProd ReduceSumSquare CumSum CumProd MatMul Einsum BitwiseAnd BitwiseOr
BitwiseXor BitwiseNot ScatterElements_add ScatterElements_mul ScatterND_add ScatterND_mul"""
_ORDER = """Max Min Clip Equal Greater GreaterOrEqual Less LessOrEqual ReduceMax ReduceMin ArgMax ArgMin TopK MaxPool
GlobalMaxPool Unique ScatterElements_max ScatterElements_min ScatterND_max ScatterND_min"""
_VALUE = "Div Mod Abs Sign Relu BitShift Range"
_NEVER = frozenset(
    [
        "Bernoulli",
        "BitCast",
        "BlackmanWindow",
        "Cast",
        "CastLike",
        "ConvInteger",
        "DequantizeLinear",
        "DynamicQuantizeLinear",
        "EyeLike",
        "HammingWindow",
        "HannWindow",
        "If",
        "Loop",
        "MatMulInteger",
        "QuantizeLinear",
        "RandomNormal",
        "RandomNormalLike",
        "RandomUniform",
        "RandomUniformLike",
        "Scan",
    ]
)
"""Operators whose meaning is tied to their element types, or that take values of several types at once."""
_KEEPS_FLOAT_VALUES = frozenset(["Abs", "Sign", "Relu", "Neg", "Floor", "Ceil", "Round"])

_KINDS = {
    **dict.fromkeys(_MOVE.split(), Kind.MOVE),
    **dict.fromkeys(_RING.split(), Kind.RING),
    **dict.fromkeys(_ORDER.split(), Kind.ORDER),
    **dict.fromkeys(_VALUE.split(), Kind.VALUE),
    "NonZero": Kind.TRUTH,
}

_FLOAT8 = (T.FLOAT8E4M3FN, T.FLOAT8E4M3FNUZ, T.FLOAT8E5M2, T.FLOAT8E5M2FNUZ)
_WIDER_FLOATS = {
    T.FLOAT16: (T.FLOAT, T.DOUBLE),
    T.BFLOAT16: (T.FLOAT, T.DOUBLE),
    T.FLOAT: (T.DOUBLE,),
    **dict.fromkeys(_FLOAT8, (T.FLOAT, T.FLOAT16, T.BFLOAT16, T.DOUBLE)),
    T.FLOAT4E2M1: (T.FLOAT, T.FLOAT16, T.BFLOAT16, T.DOUBLE),
    T.FLOAT8E8M0: (T.FLOAT, T.DOUBLE),
}
_SIGNED = (T.INT2, T.INT4, T.INT8, T.INT16, T.INT32, T.INT64)
_UNSIGNED = (T.BOOL, T.UINT2, T.UINT4, T.UINT8, T.UINT16, T.UINT32, T.UINT64)
_CARRYING_INTEGERS = (T.UINT8, T.INT8, T.INT32, T.UINT32, T.INT64, T.UINT64)
"""In order of preference: these have the most kernels."""
_SIGNIFICANDS = {T.FLOAT16: 11, T.BFLOAT16: 8, T.FLOAT: 24, T.DOUBLE: 53}


def _width(dtype: ir.DataType) -> int:
    return 1 if dtype == T.BOOL else dtype.bitwidth


def _is_integer(dtype: ir.DataType) -> bool:
    return dtype in _SIGNED or dtype in _UNSIGNED


@functools.cache
def holds(wide: ir.DataType, narrow: ir.DataType) -> bool:
    """Whether every value of `narrow` is also one of `wide`, so that a cast there and back changes nothing."""
    if wide == narrow:
        return True
    if narrow in _WIDER_FLOATS:
        return wide in _WIDER_FLOATS[narrow]
    if not _is_integer(narrow) or wide == T.BOOL:
        return False
    bits = _width(narrow) - (narrow in _SIGNED)
    if wide in _SIGNIFICANDS:
        return bits <= _SIGNIFICANDS[wide]
    if not _is_integer(wide) or (narrow in _SIGNED and wide in _UNSIGNED):
        return False
    return bits <= _width(wide) - (wide in _SIGNED)


def kind_of(key: str, variable: str, opset: int) -> Kind | None:
    """What the operator does with the values of a type variable; None where no carrier is known to be safe."""
    found = signature(key, opset)
    if found is None or key in _NEVER:
        return None
    if variable != found.main:
        return Kind.VALUE
    return _KINDS.get(key, Kind.FLOAT if variable in found.floating else None)


def keeps_float_values(key: str) -> bool:
    """Whether the operator's results on a narrow float type are values of that type even when computed wider."""
    return key in _KEEPS_FLOAT_VALUES


@functools.cache
def find_carrier(key: str, variable: str, dtype: ir.DataType, opset: int) -> Carrier | None:
    """How to run the operator on `dtype` through a type that it has a kernel for, or None.

    Limits: a maximum or minimum over no elements is that of the carrier, not of the narrow type.
    """
    kind, native = kind_of(key, variable, opset), kernels(key, variable, opset)
    if kind is None or native is None:
        return None
    for carrier in _candidates(key, kind, dtype):
        if carrier.dtype in native:
            return carrier
    return None


def _candidates(key: str, kind: Kind, dtype: ir.DataType) -> list[Carrier]:
    exact = (Embedding.EXACT,)
    if kind == Kind.TRUTH:
        # In ONNX Runtime the cast of float8 to bool takes -0 for true.
        through = T.FLOAT if dtype in _FLOAT8 else T.BOOL
        return [Carrier(through, exact, Embedding.EXACT)]
    if dtype in _WIDER_FLOATS:
        stays = kind in (Kind.MOVE, Kind.ORDER) or keeps_float_values(key)
        return [Carrier(wide, exact, Embedding.EXACT if stays else None) for wide in _WIDER_FLOATS[dtype]]
    if not _is_integer(dtype) or kind == Kind.FLOAT or (dtype == T.BOOL and kind not in (Kind.MOVE, Kind.ORDER)):
        return []
    return _integer_candidates(kind, dtype)


def _integer_candidates(kind: Kind, dtype: ir.DataType) -> list[Carrier]:
    exact, congruent = (Embedding.EXACT,), (Embedding.EXACT, Embedding.RESIDUE)
    wider = [wide for wide in _CARRYING_INTEGERS if wide != dtype and holds(wide, dtype)]
    if kind == Kind.VALUE:
        return [Carrier(wide, exact, Embedding.RESIDUE) for wide in wider]
    if kind == Kind.RING:
        wide_enough = [w for w in _CARRYING_INTEGERS if w != dtype and _width(w) >= _width(dtype)]
        return [Carrier(wide, congruent, Embedding.RESIDUE) for wide in wide_enough]
    floats = [wide for wide in _SIGNIFICANDS if holds(wide, dtype)]
    if kind == Kind.ORDER:
        flipped = [Carrier(T.INT64, (Embedding.FLIPPED,), Embedding.FLIPPED)] if dtype == T.UINT64 else []
        return [Carrier(wide, exact, Embedding.EXACT) for wide in (*wider, *floats)] + flipped
    same_width = [w for w in _CARRYING_INTEGERS if w != dtype and _width(w) == _width(dtype)]
    moved = [Carrier(wide, congruent, Embedding.EXACT) for wide in (*same_width, *wider)]
    return moved + [Carrier(wide, exact, Embedding.EXACT) for wide in floats]
