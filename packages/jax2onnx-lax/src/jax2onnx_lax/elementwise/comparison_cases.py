"""Cases of `comparison`."""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp
import ml_dtypes
import numpy as np
from jax import Array, lax, random
from jax2onnx_core import Case
from jax2onnx_graph.build.builder import DtypeLike

from jax2onnx_lax._case_helpers import Fn, at_most, only_once

__all__ = ["cases"]

_X = ("N", 5)
_BOOL = [np.bool_, np.bool_]
_KEY = np.array([123456789, 4000000000], np.uint32)


def _one(name: str, fn: Fn, operators: str) -> Case:
    """A comparison of floats that is exactly these operators."""
    return Case(name, fn, [_X, _X], covers=(name,), expect=operators, values="special")


def _typed(name: str, fn: Fn, covers: str, dtypes: Sequence[DtypeLike], *paths: str) -> Case:
    """A comparison of operands of fixed dtypes, that is exactly these paths of operators."""
    return Case(name, fn, [(_X, d) for d in dtypes], covers=(covers,), expect=paths, values="special",
                skip=only_once(*dtypes))  # fmt: skip


def _keys(name: str, fn: Fn, covers: str) -> Case:
    """A comparison of three typed keys with one of them."""

    def compare(words: Array) -> object:
        keys = random.split(random.wrap_key_data(words), 3)
        return fn(keys, keys[1])

    return Case(name, compare, [_KEY], covers=(covers,), expect=at_most(20, ReduceMin=1))


cases = [
    _one("eq", lax.eq, "Equal"),
    _one("lt", lax.lt, "Less"),
    _one("le", lax.le, "LessOrEqual"),
    _one("gt", lax.gt, "Greater"),
    _one("ge", lax.ge, "GreaterOrEqual"),
    _one("ne", lax.ne, "Equal -> Not"),
    _typed("lt_of_uint64", lax.lt, "lt", [np.uint64] * 2, "Less"),
    _typed("eq_of_bool", lax.eq, "eq", _BOOL, "Equal"),
    _typed("ne_of_bool", lax.ne, "ne", _BOOL, "Xor"),
    _typed("lt_of_bool", lax.lt, "lt", _BOOL, "Not -> And"),
    _typed("le_of_bool", lax.le, "le", _BOOL, "Not -> And -> Not"),
    _typed("gt_of_bool", lax.gt, "gt", _BOOL, "Not -> And"),
    _typed("ge_of_bool", lax.ge, "ge", _BOOL, "Not -> And -> Not"),
    _keys("equal_keys", lambda x, y: x == y, "eq"),
    _keys("unequal_keys", lambda x, y: x != y, "ne"),
    # The total order of floats.
    Case("eq_to", lax.eq_to_p.bind, [_X, _X], covers=("eq_to",), values="special", expect=at_most(20)),
    Case("lt_to", lax.lt_to_p.bind, [_X, _X], covers=("lt_to",), values="special", expect=at_most(30)),
    Case("le_to", lax.le_to_p.bind, [_X, _X], covers=("le_to",), values="special", expect=at_most(30)),
    _typed("le_to_of_integers", lax.le_to_p.bind, "le_to", [np.int32] * 2, "LessOrEqual"),
    _typed("lt_to_of_4_bits", lax.lt_to_p.bind, "lt_to", [ml_dtypes.int4] * 2, "Cast -> Less", "Cast -> Less"),
    Case("lt_to_of_zeros", lambda x: lax.lt_to_p.bind(-jnp.abs(0 * x), jnp.abs(0 * x)), [_X], covers=("lt_to",),
         expect=at_most(30)),
]  # fmt: skip
