"""Cases of `eigh`: eigenvectors have a free sign, so they are compared by what they reconstruct."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax2onnx_core import Case

from jax2onnx_lax.linalg._samples import adjoint, hermitian

__all__ = ["cases"]


def _eigh(a: jax.Array, **options: bool) -> tuple[jax.Array, jax.Array, jax.Array]:
    v, w = lax.linalg.eigh(hermitian(a), **options)
    return w, (v * w[..., None, :].astype(v.dtype)) @ adjoint(v), adjoint(v) @ v


def _upper(a: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    return _eigh(jnp.triu(hermitian(a)), lower=False, symmetrize_input=False)


_repeated = np.diag(np.array([2.0, 1.0, 2.0, -1.0, 2.0], np.float32))
_not_finite = np.array([[[1.0, np.nan], [np.nan, 1.0]], [[2.0, 1.0], [1.0, 2.0]]], np.float32)

cases = [
    Case("eigh_1", _eigh, [(1, 1)], ("eigh",)),
    Case("eigh_3", _eigh, [(3, 3)], ("eigh",)),
    Case("eigh_batch", _eigh, [(2, 3, 8, 8)], ("eigh",)),
    Case("eigh_symbolic_batch", _eigh, [("B", 5, 5)], ("eigh",)),
    Case("eigh_symbolic", _eigh, [("N", "N")], ("eigh",)),
    Case("eigh_upper", _upper, [(4, 4)], ("eigh",)),
    Case("eigh_complex", _eigh, [((2, 5, 5), np.complex64)], ("eigh",)),
    Case("eigh_empty", _eigh, [(0, 0)], ("eigh",)),
    Case("eigh_repeated", _eigh, [_repeated], ("eigh",)),
    Case("eigh_zero", _eigh, [np.zeros((3, 3), np.float32)], ("eigh",)),
    Case("eigh_huge_numbers", lambda a: jnp.linalg.eigvalsh(a * 1e25), [(3, 3)], ("eigh",)),
    Case("eigh_not_finite", jnp.linalg.eigvalsh, [_not_finite], ("eigh",)),
    Case("eigh_64", _eigh, [(64, 64)], ("eigh",), rtol=1e-4, skip={"f64": "the tolerance is that of float32"}),
    Case("eigvalsh_gradient", jax.grad(lambda a: jnp.linalg.eigvalsh(a)[0]), [(4, 4)], ("eigh",)),
    Case("eigvalsh_vmap", jax.vmap(jnp.linalg.eigvalsh), [("B", 3, 3)], ("eigh",)),
]
