"""Cases of `svd`: singular vectors have a free sign, so they are compared by what they reconstruct."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax2onnx_core import Case

from jax2onnx_lax._case_helpers import at_most
from jax2onnx_lax.linalg._matrix import adjoint

__all__ = ["cases"]


def _svd(a: jax.Array, *, full_matrices: bool = False) -> tuple[jax.Array, ...]:
    u, s, vh = jnp.linalg.svd(a, full_matrices=full_matrices)
    rank = s.shape[-1]
    product = (u[..., :rank] * s[..., None, :].astype(u.dtype)) @ vh[..., :rank, :]
    return s, product, adjoint(u) @ u, vh @ adjoint(vh)


_values = partial(jnp.linalg.svd, compute_uv=False)
_deficient = np.ones((4, 3), np.float32)
_not_finite = np.array([[[1.0, np.inf], [0.0, 1.0]], [[2.0, 1.0], [1.0, 2.0]]], np.float32)

cases = [
    Case("svd_1", _svd, [(1, 1)], ("svd",), expect=at_most(230, Loop=1)),
    Case("svd_3", _svd, [(3, 3)], ("svd",), expect=at_most(110, If=0, Loop=1, Scan=4)),
    Case("svd_batch", _svd, [(2, 3, 8, 5)], ("svd",), expect=at_most(140, If=0, Loop=1, Scan=4)),
    Case("svd_wide", _svd, [("B", 3, 8)], ("svd",), expect=at_most(150, If=0, Loop=1, Scan=4)),
    Case("svd_full", partial(_svd, full_matrices=True), [("B", 5, 3)], ("svd",),
         expect=at_most(150, If=0, Loop=1, Scan=4)),
    Case("svd_symbolic", _svd, [("N", "N")], ("svd",), expect=at_most(150, If=0, Loop=1, Scan=4)),
    Case("svd_complex", _svd, [((2, 4, 3), np.complex64)], ("svd",), expect=at_most(350, If=0, Loop=1, Scan=4)),
    Case("svd_empty", _values, [(0, 3)], ("svd",), expect="Identity"),
    Case("svd_rank_deficient", _svd, [_deficient], ("svd",), expect=at_most(110, If=0, Loop=1, Scan=4)),
    Case("svd_zero", _svd, [np.zeros((3, 3), np.float32)], ("svd",), expect=at_most(110, If=0, Loop=1, Scan=4)),
    Case("svd_not_finite", _values, [_not_finite], ("svd",), expect=at_most(50, If=0, Loop=1, Scan=1)),
    Case("svd_64", _svd, [(64, 64)], ("svd",),
         expect=at_most(110, If=0, Loop=1, Scan=4)),
    Case("singular_values", _values, [("B", 6, 4)], ("svd",), expect=at_most(60, If=0, Loop=1, Scan=1)),
    Case("singular_values_gradient", jax.grad(lambda a: _values(a).sum()), [(4, 3)], ("svd",),
         expect=at_most(100, If=0, Loop=1, Scan=4)),
    Case("pinv", jnp.linalg.pinv, [(5, 3)], ("svd",), expect=at_most(110, If=0, Loop=1, Scan=4)),
    Case("matrix_rank", jnp.linalg.matrix_rank, [(5, 3)], ("svd",), expect=at_most(50, If=0, Loop=1, Scan=1)),
    Case("condition", jnp.linalg.cond, [(5, 3)], ("svd",), expect=at_most(50, If=0, Loop=1, Scan=1)),
]  # fmt: skip
