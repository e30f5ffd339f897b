"""Cases of `hessenberg`: LAPACK's sign convention determines the factors, so they are compared as they are."""

from __future__ import annotations

from functools import partial

import jax
import numpy as np
from jax import lax
from jax2onnx_core import Case

from jax2onnx_lax._case_helpers import at_most

__all__ = ["cases"]

_upper = partial(lax.linalg.tridiagonal, lower=False)


def _hessenberg(a: jax.Array) -> tuple[jax.Array, jax.Array]:
    return lax.linalg.hessenberg(a)


cases = [
    Case("hessenberg_1", _hessenberg, [(1, 1)], ("hessenberg",), expect=["Identity", "Identity"]),
    Case("hessenberg_3", _hessenberg, [(3, 3)], ("hessenberg",), expect="Scan -> Transpose -> Pad -> Where"),
    Case("hessenberg_batch", _hessenberg, [("B", 5, 5)], ("hessenberg",),
         expect=["Scan -> Transpose -> Pad -> Where", "Transpose"]),
    Case("hessenberg_complex", _hessenberg, [((2, 4, 4), np.complex64)], ("hessenberg",), expect=at_most(30, Scan=1)),
    Case("tridiagonal_1", lax.linalg.tridiagonal, [(1, 1)], ("tridiagonal",),
         expect=["ReduceSum", "Identity", "Identity", "Identity"]),
    Case("tridiagonal_3", lax.linalg.tridiagonal, [(3, 3)], ("tridiagonal",), expect=at_most(20, Scan=1)),
    Case("tridiagonal_batch", lax.linalg.tridiagonal, [(2, 3, 6, 6)], ("tridiagonal",), expect=at_most(20, Scan=1)),
    Case("tridiagonal_upper", _upper, [("B", 4, 4)], ("tridiagonal",), expect=at_most(30, Scan=1)),
    Case("tridiagonal_complex", lax.linalg.tridiagonal, [((4, 4), np.complex64)], ("tridiagonal",),
         expect=at_most(40, Scan=1)),
    Case("tridiagonal_upper_complex", _upper, [((4, 4), np.complex64)], ("tridiagonal",), expect=at_most(50, Scan=1)),
]  # fmt: skip
