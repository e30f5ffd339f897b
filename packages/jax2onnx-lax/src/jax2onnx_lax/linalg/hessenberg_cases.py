"""Cases of `hessenberg`: LAPACK's sign convention determines the factors, so they are compared as they are."""

from __future__ import annotations

from functools import partial

import jax
import numpy as np
from jax import lax
from jax2onnx_core import Case

__all__ = ["cases"]

_upper = partial(lax.linalg.tridiagonal, lower=False)


def _hessenberg(a: jax.Array) -> tuple[jax.Array, jax.Array]:
    return lax.linalg.hessenberg(a)


cases = [
    Case("hessenberg_1", _hessenberg, [(1, 1)], ("hessenberg",)),
    Case("hessenberg_3", _hessenberg, [(3, 3)], ("hessenberg",)),
    Case("hessenberg_batch", _hessenberg, [("B", 5, 5)], ("hessenberg",)),
    Case("hessenberg_complex", _hessenberg, [((2, 4, 4), np.complex64)], ("hessenberg",)),
    Case("tridiagonal_1", lax.linalg.tridiagonal, [(1, 1)], ("tridiagonal",)),
    Case("tridiagonal_3", lax.linalg.tridiagonal, [(3, 3)], ("tridiagonal",)),
    Case("tridiagonal_batch", lax.linalg.tridiagonal, [(2, 3, 6, 6)], ("tridiagonal",)),
    Case("tridiagonal_upper", _upper, [("B", 4, 4)], ("tridiagonal",)),
    Case("tridiagonal_complex", lax.linalg.tridiagonal, [((4, 4), np.complex64)], ("tridiagonal",)),
    Case("tridiagonal_upper_complex", _upper, [((4, 4), np.complex64)], ("tridiagonal",)),
]
