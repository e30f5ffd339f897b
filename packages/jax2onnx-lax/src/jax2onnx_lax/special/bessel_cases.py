"""Cases of `bessel`."""

from __future__ import annotations

import ml_dtypes
from jax import lax
from jax2onnx_core import Case

__all__ = ["cases"]

_X = ("N", 7)
_FUNCTIONS = {"bessel_i0e": lax.bessel_i0e, "bessel_i1e": lax.bessel_i1e}

cases = [
    *(Case(name, fn, [_X], covers=(name,), values="special") for name, fn in _FUNCTIONS.items()),
    *(Case(f"{name}_of_large", lambda x, fn=fn: fn(10 * x), [_X], covers=(name,)) for name, fn in _FUNCTIONS.items()),
    *(Case(f"{name}_of_bfloat16", fn, [(_X, ml_dtypes.bfloat16)], covers=(name,)) for name, fn in _FUNCTIONS.items()),
]
