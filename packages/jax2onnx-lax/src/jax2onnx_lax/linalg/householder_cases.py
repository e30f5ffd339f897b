"""Cases of `householder`."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax2onnx_core import Case

from jax2onnx_lax._case_helpers import at_most

__all__ = ["cases"]


def _raw(a: jax.Array) -> tuple[jax.Array, jax.Array]:
    packed, taus = jnp.linalg.qr(a, mode="raw")
    return jnp.swapaxes(packed, -1, -2), taus


def _product(a: jax.Array) -> jax.Array:
    return lax.linalg.householder_product(*_raw(a))


def _multiply(a: jax.Array, c: jax.Array, **options: bool) -> jax.Array:
    return lax.linalg.ormqr(*_raw(a), c, **options)


cases = [
    Case("householder_product_1", _product, [(1, 1)], ("householder_product", "geqrf"),
         expect=at_most(90, ReduceSum=1, ReduceSumSquare=1, Gemm=0, MatMul=1)),
    Case("householder_product", _product, [(2, 3, 8, 3)], ("householder_product", "geqrf"), expect=at_most(20, Scan=2)),
    Case("householder_product_symbolic", _product, [("B", 5, 3)], ("householder_product",), expect=at_most(20, Scan=2)),
    Case("householder_product_complex", _product, [((5, 3), np.complex64)], ("householder_product",),
         expect=at_most(80, Scan=2)),
    Case("ormqr", _multiply, [("B", 5, 3), ("B", 5, 2)], ("ormqr",), expect=at_most(20, Scan=2)),
    Case("ormqr_transposed", partial(_multiply, transpose=True), [(5, 3), (5, 2)], ("ormqr",),
         expect=at_most(20, Scan=2)),
    Case("ormqr_right", partial(_multiply, left=False), [(5, 3), (2, 5)], ("ormqr",), expect=at_most(20, Scan=2)),
    Case("ormqr_right_adjoint", partial(_multiply, left=False, transpose=True),
         [((5, 3), np.complex64), ((2, 5), np.complex64)], ("ormqr",), expect=at_most(90, Scan=2)),
]  # fmt: skip
