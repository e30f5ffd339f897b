"""Cases of `bessel`."""

from __future__ import annotations

import ml_dtypes
from jax import lax
from jax2onnx_core import Case

from jax2onnx_lax._case_helpers import at_most

__all__ = ["cases"]

_X = ("N", 7)
_FUNCTIONS = {"bessel_i0e": lax.bessel_i0e, "bessel_i1e": lax.bessel_i1e}

cases = [
    *(Case(name, fn, [_X], covers=(name,), expect=at_most(110), values="special") for name, fn in _FUNCTIONS.items()),
    *(
        Case(f"{name}_of_large", lambda x, fn=fn: fn(10 * x), [_X], (name,), at_most(110))
        for name, fn in _FUNCTIONS.items()
    ),
    *(
        Case(f"{name}_of_bfloat16", fn, [(_X, ml_dtypes.bfloat16)], (name,), at_most(110))
        for name, fn in _FUNCTIONS.items()
    ),
]
