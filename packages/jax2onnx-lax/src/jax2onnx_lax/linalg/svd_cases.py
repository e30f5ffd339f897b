"""Cases of `svd`: singular vectors have a free sign, so they are compared by what they reconstruct."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax2onnx_core import Case

from jax2onnx_lax.linalg._samples import adjoint

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
    Case("svd_1", _svd, [(1, 1)], ("svd",)),
    Case("svd_3", _svd, [(3, 3)], ("svd",)),
    Case("svd_batch", _svd, [(2, 3, 8, 5)], ("svd",)),
    Case("svd_wide", _svd, [("B", 3, 8)], ("svd",)),
    Case("svd_full", partial(_svd, full_matrices=True), [("B", 5, 3)], ("svd",)),
    Case("svd_symbolic", _svd, [("N", "N")], ("svd",)),
    Case("svd_complex", _svd, [((2, 4, 3), np.complex64)], ("svd",)),
    Case("svd_empty", _values, [(0, 3)], ("svd",)),
    Case("svd_rank_deficient", _svd, [_deficient], ("svd",)),
    Case("svd_zero", _svd, [np.zeros((3, 3), np.float32)], ("svd",)),
    Case("svd_not_finite", _values, [_not_finite], ("svd",)),
    Case("svd_64", _svd, [(64, 64)], ("svd",), rtol=1e-4, skip={"f64": "the tolerance is that of float32"}),
    Case("singular_values", _values, [("B", 6, 4)], ("svd",)),
    Case("singular_values_gradient", jax.grad(lambda a: _values(a).sum()), [(4, 3)], ("svd",)),
    Case("pinv", jnp.linalg.pinv, [(5, 3)], ("svd",)),
    Case("matrix_rank", jnp.linalg.matrix_rank, [(5, 3)], ("svd",)),
    Case("condition", jnp.linalg.cond, [(5, 3)], ("svd",)),
]
