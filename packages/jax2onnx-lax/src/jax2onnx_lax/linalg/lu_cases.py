"""Cases of `lu`."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax2onnx_core import Case

from jax2onnx_lax._case_helpers import at_most
from jax2onnx_lax.linalg._samples import dominant

__all__ = ["cases"]

_singular = np.array([[0.0, 1.0, 2.0], [0.0, 3.0, 1.0], [0.0, 2.0, 2.0]], np.float32)
_tied = np.array([[1.0, 2.0, 1.0], [-1.0, 1.0, 3.0], [1.0, -1.0, 2.0]], np.float32)
_out_of_range = np.array([[5, -1, 7, -7], [-(2**31), 2**31 - 1, 6, 0], [-3, 3, -6, 2]], np.int32)

cases = [
    Case("lu_1", lax.linalg.lu, [(1, 1)], ("lu",), expect=at_most(20, If=1)),
    Case("lu_3", lax.linalg.lu, [(3, 3)], ("lu",), expect=["Scan -> Transpose -> Gather -> Where", "Clip -> Gather"]),
    Case("lu_batch", lax.linalg.lu, [(2, 3, 8, 8)], ("lu",), expect=at_most(10, Scan=1)),
    Case("lu_wide", lax.linalg.lu, [(3, 5)], ("lu",),
         expect=["Scan -> Transpose -> Gather -> Pad -> Where", "Clip -> Gather"]),
    Case("lu_tall", lax.linalg.lu, [("B", 5, 3)], ("lu",), expect=at_most(20, Scan=1)),
    Case("lu_symbolic", lambda a: lax.linalg.lu(dominant(a)), [("N", "N")], ("lu",), expect=at_most(30, Scan=1)),
    Case("lu_complex", lax.linalg.lu, [((2, 4, 4), np.complex64)], ("lu",), expect=at_most(30, Scan=1)),
    Case("lu_empty", lax.linalg.lu, [(0, 3)], ("lu",), expect=["Identity", "Identity", "Identity"]),
    Case("lu_singular", lax.linalg.lu, [_singular], ("lu",),
         expect=["Scan -> Transpose -> Gather -> Where", "Clip -> Gather"]),
    Case("lu_equal_pivots", lax.linalg.lu, [_tied], ("lu",),
         expect=["Scan -> Transpose -> Gather -> Where", "Clip -> Gather"]),
    Case("lu_pivots_to_permutation", lambda a: lax.linalg.lu_pivots_to_permutation(lax.linalg.lu(a)[1], 6), [(2, 5, 4)],
         ("lu_pivots_to_permutation",),
         expect=["Scan -> Less -> Where -> Max -> Min -> Reshape -> Scan", "Add -> Where", "Unsqueeze -> Scan"]),
    Case("lu_pivots_out_of_range", lambda p: lax.linalg.lu_pivots_to_permutation(p, 6), [_out_of_range],
         ("lu_pivots_to_permutation",),
         expect=["Less -> Where -> Transpose -> Max -> Min -> Reshape -> Scan", "Add -> Where", "Unsqueeze -> Scan"]),
    Case("determinant", jnp.linalg.det, [("B", 5, 5)], ("lu",), expect=at_most(50, Scan=1)),
    Case("slogdet", jnp.linalg.slogdet, [(2, 6, 6)], ("lu",), expect=at_most(40, Scan=1)),
    Case("determinant_gradient", jax.grad(lambda a: jnp.linalg.det(dominant(a))), [(5, 5)], ("lu",),
         expect=at_most(70, Scan=4)),
]  # fmt: skip
