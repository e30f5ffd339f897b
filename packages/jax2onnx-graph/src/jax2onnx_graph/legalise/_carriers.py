"""`find_carrier`: the wider type through which an operator is computed without a change of its values.

What a carrier must preserve depends on what the operator does with its operands (`ValueUse`):

* `MOVE`: any one-to-one map serves.
* `RING`: a wider integer type serves, and one of equal width; the cast back wraps around as the narrow type would.
* `ORDER`: the map must keep the order.
* `VALUE`: the wider type must hold the same number.
* `FLOAT`: computed in a wider type and rounded once. (For +, −, ×, ÷ and √ this is the correctly rounded
  result, as float32 has more than 2p + 2 bits of float16 and bfloat16: Figueroa, "When is double rounding
  innocuous?", 1995.)
* `TRUTH`: the map must keep zero apart from the other values.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Sequence
from typing import NamedTuple

from jax2onnx_graph._ir import ir
from jax2onnx_graph.facts.dtypes import is_exact_cast, width
from jax2onnx_graph.facts.operators import ValueUse, facts_of, value_use
from jax2onnx_graph.legalise.kernels import KernelTable, signature

__all__ = ["Carrier", "Embedding", "find_carrier", "use_of"]

T = ir.DataType


class Embedding(enum.Enum):
    """The map from values of the narrow type to values of the carrier.

    `EXACT`: the same number. `RESIDUE`: a number congruent to it modulo 2ⁿ, n its width.
    `FLIPPED`: its bits with the sign bit inverted, which maps unsigned order to signed order.
    """

    EXACT = enum.auto()
    RESIDUE = enum.auto()
    FLIPPED = enum.auto()


class Carrier(NamedTuple):
    """A carrier type, the embeddings that operands may have in it, and the embedding that results then have."""

    dtype: ir.DataType
    operands: tuple[Embedding, ...]
    result: Embedding | None
    """From operands that are all `EXACT` or all `FLIPPED`; a `RESIDUE` among them makes it one.

    None: the result needs the cast back before anything else may use it (rounding)."""


_CARRYING_INTEGERS = (T.UINT8, T.INT8, T.INT32, T.UINT32, T.INT64, T.UINT64)
_CARRYING_FLOATS = (T.FLOAT, T.FLOAT16, T.BFLOAT16, T.DOUBLE)
"""Types in order of preference: the first have the most kernels."""


def use_of(key: str, variable: str, opset: int) -> ValueUse | None:
    """The kind of computation that an operator does on the operands of one type variable.

    Args:
      key: the operator, with its reduction where it has one ("ScatterND_add").
      variable: the type variable, as the schema calls it: "T".
      opset: the version of the standard operators.

    Returns:
      The kind; None where no carrier is known to be safe.
    """
    found = signature(key, opset)
    if found is None or facts_of(key).type_bound:
        return None
    if variable != found.main:
        return ValueUse.VALUE
    use = value_use(key)
    return None if use is ValueUse.FLOAT and variable not in found.floating else use


@functools.cache
def find_carrier(table: KernelTable, key: str, variable: str, dtype: ir.DataType, opset: int) -> Carrier | None:
    """A type with a kernel through which an operator is computed on another type, without a change of values.

    A maximum or minimum over no elements is that of the carrier, not of the narrow type.

    Args:
      table: the kernels of the runtime.
      key: the operator, with its reduction where it has one ("ScatterND_add").
      variable: the type variable that is bound to `dtype`.
      dtype: the element type that lacks a kernel.
      opset: the version of the standard operators.

    Returns:
      The first carrier in order of preference; None where there is none.
    """
    use, native = use_of(key, variable, opset), table.types(key, variable, opset)
    if use is None or native is None or dtype not in (table.types("Cast", "T1", opset) or ()):
        return None
    for carrier in _candidates(key, use, dtype):
        if carrier.dtype in native - table.narrow:
            return carrier
    return None


def _candidates(key: str, use: ValueUse, dtype: ir.DataType) -> list[Carrier]:
    exact = (Embedding.EXACT,)
    if use is ValueUse.TRUTH:
        # Runtimes take -0 for true when they cast float8 to bool.
        is_float8 = dtype.is_floating_point() and dtype.bitwidth == 8
        return [Carrier(T.FLOAT if is_float8 else T.BOOL, exact, Embedding.EXACT)]
    if dtype.is_floating_point():
        stays = use in (ValueUse.MOVE, ValueUse.ORDER) or facts_of(key).keeps_float_type
        return [Carrier(wide, exact, Embedding.EXACT if stays else None) for wide in _wider(dtype, _CARRYING_FLOATS)]
    if dtype == T.BOOL and use not in (ValueUse.MOVE, ValueUse.ORDER):
        return []
    return _integer_candidates(use, dtype) if dtype == T.BOOL or dtype.is_integer() else []


def _integer_candidates(use: ValueUse, dtype: ir.DataType) -> list[Carrier]:
    exact, congruent = (Embedding.EXACT,), (Embedding.EXACT, Embedding.RESIDUE)
    wider, floats = _wider(dtype, _CARRYING_INTEGERS), _wider(dtype, _CARRYING_FLOATS)
    if use is ValueUse.FLOAT:
        return []
    if use is ValueUse.VALUE:
        return [Carrier(wide, exact, Embedding.RESIDUE) for wide in wider]
    if use is ValueUse.RING:
        wide_enough = [w for w in _CARRYING_INTEGERS if w != dtype and width(w) >= width(dtype)]
        return [Carrier(wide, congruent, Embedding.RESIDUE) for wide in wide_enough]
    if use is ValueUse.ORDER:
        signed = {T.UINT64: T.INT64, T.UINT32: T.INT32}.get(dtype)
        flipped = [Carrier(signed, (Embedding.FLIPPED,), Embedding.FLIPPED)] if signed is not None else []
        return [Carrier(wide, exact, Embedding.EXACT) for wide in (*wider, *floats)] + flipped
    same_width = [w for w in _CARRYING_INTEGERS if w != dtype and width(w) == width(dtype)]
    moved = [Carrier(wide, congruent, Embedding.EXACT) for wide in (*same_width, *wider)]
    return moved + [Carrier(wide, exact, Embedding.EXACT) for wide in floats]


def _wider(dtype: ir.DataType, carriers: Sequence[ir.DataType]) -> list[ir.DataType]:
    """The carriers among some that hold every value of a narrower type."""
    return [wide for wide in carriers if wide != dtype and is_exact_cast(dtype, wide)]
