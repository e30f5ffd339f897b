"""NumPy evaluation of cheap primitives on constants: XLA would compile a program for each.

Only what NumPy computes bit for bit as XLA's CPU backend does; anything else is left to JAX.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from jax2onnx_core import Rules

__all__ = ["rules"]

rules = Rules()

Array = np.ndarray[Any, Any]

# Extension types (bfloat16, float8, int4, …) have kind "V" or their own arithmetic.
_PLAIN = frozenset("biuf")


def _plain(fn: Callable[..., Any]) -> Callable[..., Any]:
    """`fn` where all operands have NumPy's own real dtypes; JAX evaluates the others."""

    def fold(*operands: Array, out_dtype: Any = None, **_: Any) -> Any:
        if out_dtype is not None or any(x.dtype.kind not in _PLAIN or not x.dtype.isbuiltin for x in operands):
            raise NotImplementedError
        return fn(*operands)

    return fold


def _shift(fn: Callable[[Array, Array], Any]) -> Callable[[Array, Array], Any]:
    """A shift by less than the width, of unsigned numbers."""

    def shift(x: Array, amount: Array) -> Any:
        if x.dtype.kind != "u" or np.any(amount >= x.dtype.itemsize * 8):
            raise NotImplementedError
        return fn(x, amount)

    return shift


def _shift_right_logical(x: Array, amount: Array) -> Any:
    bits = x.dtype.itemsize * 8
    if np.any(amount < 0):
        raise NotImplementedError
    unsigned = np.dtype(f"u{x.dtype.itemsize}")
    inside = np.minimum(amount, bits - 1).astype(unsigned)
    return np.where(amount < bits, x.astype(unsigned) >> inside, 0).astype(x.dtype)


def _mulhi(x: Array, y: Array) -> Any:
    if x.dtype != np.uint32:
        raise NotImplementedError
    return ((x.astype(np.uint64) * y) >> np.uint64(32)).astype(np.uint32)


_FUNCTIONS: dict[str, Callable[..., Any]] = {
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
    "shift_left": _shift(np.left_shift),
    "shift_right_logical": _shift_right_logical,
    "mulhi": _mulhi,
}
for _name, _fn in _FUNCTIONS.items():
    rules.numpy_evaluator(_name, _plain(_fn))


@rules.numpy_evaluator("select_n")
def select_n(which: Array, *cases: Array) -> Array:
    """A Boolean choice; more than two cases are left to JAX."""
    if which.dtype != np.bool_ or len(cases) != 2:
        raise NotImplementedError
    return np.where(which, cases[1], cases[0])


@rules.numpy_evaluator("convert_element_type")
def convert_element_type(x: Array, *, new_dtype: Any, **_: Any) -> Array:
    """Between integers (wrapping), to Boolean, and from anything to a float that holds it exactly."""
    new = np.dtype(new_dtype)
    if x.dtype == new:
        return x
    if x.dtype.kind in "biu" and new.kind in "biu" and new.isbuiltin and x.dtype.isbuiltin:
        return x != 0 if new.kind == "b" else x.astype(new)
    if x.dtype.kind in "biuf" and new.kind == "f" and x.dtype.isbuiltin and np.can_cast(x.dtype, new, "safe"):
        return x.astype(new)
    raise NotImplementedError


@rules.numpy_evaluator("bitcast_convert_type")
def bitcast_convert_type(x: Array, *, new_dtype: Any) -> Array:
    """Between types of one width."""
    new = np.dtype(new_dtype)
    if not (x.dtype.isbuiltin and new.isbuiltin and x.dtype.itemsize == new.itemsize) or "b" in (
        x.dtype.kind,
        new.kind,
    ):
        raise NotImplementedError
    return np.ascontiguousarray(x).view(new).reshape(x.shape)
