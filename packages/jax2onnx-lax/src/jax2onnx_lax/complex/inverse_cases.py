"""Cases of `inverse`: the f32 variant computes in complex64, the f64 variant in complex128."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax2onnx_core import Case

from jax2onnx_lax._case_helpers import at_most

__all__ = ["cases"]

_FUNCTIONS = {
    "asin": jnp.arcsin, "acos": jnp.arccos, "atan": jnp.arctan,
    "asinh": jnp.arcsinh, "acosh": jnp.arccosh, "atanh": jnp.arctanh,
}  # fmt: skip
_POINTS = np.array([0, 0.5, 2, -2, 3j, -3j, 1e-9 + 1e-9j, 1e25 - 1e25j, 1 + 1e-5j, 0.99 + 1e-3j, complex(np.inf, 1)])

cases = [
    *(
        Case(name, lambda x, y, fn=fn: fn(lax.complex(x, y)), [("B", 5), ("B", 5)], (name,), at_most(230))
        for name, fn in _FUNCTIONS.items()
    ),
    *(
        Case(
            f"{name}_special",
            lambda x, y, fn=fn: fn(lax.complex(x, y)),
            [_POINTS.real, _POINTS.imag],
            (name,),
            at_most(230),
        )
        for name, fn in _FUNCTIONS.items()
    ),
]
