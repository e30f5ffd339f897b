"""Cases of `qr`. The signs of LAPACK's factors are determined by its convention, so they are compared as they are."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax2onnx_core import Case

from jax2onnx_lax._case_helpers import at_most

__all__ = ["cases"]


def _qr(a: jax.Array, **options: bool) -> tuple[jax.Array, ...]:
    return lax.linalg.qr(a, **options)


_thin, _pivoting = partial(_qr, full_matrices=False), partial(_qr, pivoting=True)

cases = [
    Case("qr_1", _qr, [(1, 1)], ("qr",), expect=at_most(100, MatMul=2, ReduceMax=1, ReduceSum=1, ReduceSumSquare=1)),
    Case("qr_3", _qr, [(3, 3)], ("qr",), expect=at_most(20, Scan=2)),
    Case("qr_batch", _thin, [(2, 3, 8, 4)], ("qr",), expect=at_most(20, Scan=2)),
    Case("qr_full", _qr, [("B", 8, 3)], ("qr",), expect=at_most(20, Scan=2)),
    Case("qr_wide", _thin, [("B", 3, 5)], ("qr",), expect=at_most(20, Scan=2)),
    Case("qr_symbolic", _qr, [("N", "N")], ("qr",), expect=at_most(30, Scan=2)),
    Case("qr_complex", _qr, [((2, 5, 3), np.complex64)], ("qr",), expect=at_most(80, Scan=2)),
    Case("qr_empty", _qr, [(3, 0)], ("qr",), expect=["Identity", "Identity"]),
    Case("qr_zero", _qr, [np.zeros((3, 3), np.float32)], ("qr",), expect=at_most(20, Scan=2)),
    Case("qr_tiny_numbers", lambda a: _qr(a * 1e-30), [(3, 3)], ("qr",), expect=at_most(20, Scan=2)),
    Case("qr_pivoting", _pivoting, [(2, 6, 4)], ("qr",), expect=at_most(40, Scan=2)),
    Case("qr_pivoting_wide", partial(_pivoting, full_matrices=False), [("B", 3, 5)], ("qr",), expect=at_most(50, Scan=2)),
    Case("qr_pivoting_complex", _pivoting, [((4, 4), np.complex64)], ("qr",), expect=at_most(80, Scan=2)),
    Case("qr_gradient", jax.grad(lambda a: sum(x.sum() for x in _thin(a))), [(5, 3)], ("qr",),
         expect=at_most(50, Scan=3)),
    Case("geqrf", lambda a: jnp.linalg.qr(a, mode="raw"), [("B", 5, 3)], ("geqrf",),
         expect=["Scan -> Transpose -> Where -> Transpose", "Transpose"]),
    Case("geqp3", lambda a: jax.scipy.linalg.qr(a, mode="r", pivoting=True), [(5, 3)], ("geqp3", "qr"),
         expect="Scan -> Clip -> Gather -> Where"),
    Case("least_squares", lambda a, b: jnp.linalg.lstsq(a, b)[0], [(8, 3), (8, 2)], ("svd",),
         expect=at_most(120, Loop=1, Scan=4)),
]  # fmt: skip
