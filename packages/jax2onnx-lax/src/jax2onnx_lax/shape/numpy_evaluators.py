"""NumPy evaluation of cheap primitives on constants: XLA would compile a program for each.

Only what NumPy computes bit for bit as XLA's CPU backend does; a function raises NotImplementedError for anything
else, which is left to JAX.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from jax2onnx_core import Rules
from jax2onnx_graph.build.builder import Array, DtypeLike

__all__ = ["rules"]

rules = Rules()

Evaluator = Callable[..., Array]

# Kinds of NumPy's own real dtypes; extension types (bfloat16, float8, int4, …) have kind "V" or their own arithmetic.
_PLAIN = frozenset("biuf")


def _on_plain_arrays(fn: Evaluator) -> Evaluator:
    """`fn` for operands of NumPy's own real dtypes, without `out_dtype`; raises NotImplementedError otherwise."""

    def evaluate(*operands: Array, out_dtype: DtypeLike | None = None, **_: object) -> Array:
        if out_dtype is not None or any(x.dtype.kind not in _PLAIN or not x.dtype.isbuiltin for x in operands):
            raise NotImplementedError
        return fn(*operands)

    return evaluate


def _shift_left(x: Array, amount: Array) -> Array:
    """A shift of unsigned numbers by less than their width."""
    if x.dtype.kind != "u" or np.any(amount >= x.dtype.itemsize * 8):
        raise NotImplementedError
    return x << amount


def _shift_right_logical(x: Array, amount: Array) -> Array:
    """A shift that fills with zeros, by 0 or more; zero where `amount` reaches the width."""
    bits = x.dtype.itemsize * 8
    if np.any(amount < 0):
        raise NotImplementedError
    unsigned = np.dtype(f"u{x.dtype.itemsize}")
    inside = np.minimum(amount, bits - 1).astype(unsigned)
    return np.where(amount < bits, x.astype(unsigned) >> inside, 0).astype(x.dtype)


def _mulhi(x: Array, y: Array) -> Array:
    """The upper 32 bits of the product of uint32 arrays."""
    if x.dtype != np.uint32:
        raise NotImplementedError
    return ((x.astype(np.uint64) * y) >> np.uint64(32)).astype(np.uint32)


_FUNCTIONS: Mapping[str, Evaluator] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "neg": np.negative,
    "max": np.maximum,
    "min": np.minimum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "not": np.invert,
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "shift_left": _shift_left,
    "shift_right_logical": _shift_right_logical,
    "mulhi": _mulhi,
}
for _name, _fn in _FUNCTIONS.items():
    rules.numpy_evaluator(_name, _on_plain_arrays(_fn))


@rules.numpy_evaluator("select_n")
def select_n(which: Array, *cases: Array) -> Array:
    """A choice by booleans between two arrays; raises NotImplementedError for more."""
    if which.dtype != np.bool_ or len(cases) != 2:
        raise NotImplementedError
    return np.where(which, cases[1], cases[0])


@rules.numpy_evaluator("convert_element_type")
def convert_element_type(x: Array, *, new_dtype: DtypeLike, **_: object) -> Array:
    """Between integers (wrapping), to bool, and to a float type that holds all values of the old one.

    Raises:
      NotImplementedError: another conversion.
    """
    new = np.dtype(new_dtype)
    if x.dtype == new:
        return x
    if x.dtype.kind in "biu" and new.kind in "biu" and new.isbuiltin and x.dtype.isbuiltin:
        return x != 0 if new.kind == "b" else x.astype(new)
    if x.dtype.kind in "biuf" and new.kind == "f" and x.dtype.isbuiltin and np.can_cast(x.dtype, new, "safe"):
        return x.astype(new)
    raise NotImplementedError


@rules.numpy_evaluator("bitcast_convert_type")
def bitcast_convert_type(x: Array, *, new_dtype: DtypeLike) -> Array:
    """Bitcast arrays of equal itemsize.

    Raises:
      NotImplementedError: the itemsizes differ, or a dtype is bool or not NumPy's own.
    """
    new = np.dtype(new_dtype)
    is_plain = x.dtype.isbuiltin and new.isbuiltin and "b" not in (x.dtype.kind, new.kind)
    if not is_plain or x.dtype.itemsize != new.itemsize:
        raise NotImplementedError
    return np.ascontiguousarray(x).view(new).reshape(x.shape)
