"""Cases of `eigh`: eigenvectors have a free sign, so they are compared by what they reconstruct."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax2onnx_core import Case

from jax2onnx_lax._case_helpers import at_most
from jax2onnx_lax.linalg._matrix import adjoint
from jax2onnx_lax.linalg._samples import hermitian

__all__ = ["cases"]


def _eigh(a: jax.Array, **options: bool) -> tuple[jax.Array, jax.Array, jax.Array]:
    v, w = lax.linalg.eigh(hermitian(a), **options)
    return w, (v * w[..., None, :].astype(v.dtype)) @ adjoint(v), adjoint(v) @ v


def _upper(a: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    return _eigh(jnp.triu(hermitian(a)), lower=False, symmetrize_input=False)


_repeated = np.diag(np.array([2.0, 1.0, 2.0, -1.0, 2.0], np.float32))
_not_finite = np.array([[[1.0, np.nan], [np.nan, 1.0]], [[2.0, 1.0], [1.0, 2.0]]], np.float32)

cases = [
    Case("eigh_1", _eigh, [(1, 1)], ("eigh",), expect=at_most(70, Loop=1)),
    Case("eigh_3", _eigh, [(3, 3)], ("eigh",), expect=at_most(90, If=0, Loop=1)),
    Case("eigh_batch", _eigh, [(2, 3, 8, 8)], ("eigh",), expect=at_most(100, If=0, Loop=1)),
    Case("eigh_symbolic_batch", _eigh, [("B", 5, 5)], ("eigh",), expect=at_most(110, If=0, Loop=1)),
    Case("eigh_symbolic", _eigh, [("N", "N")], ("eigh",), expect=at_most(130, If=0, Loop=1)),
    Case("eigh_upper", _upper, [(4, 4)], ("eigh",), expect=at_most(90, If=0, Loop=1)),
    Case("eigh_complex", _eigh, [((2, 5, 5), np.complex64)], ("eigh",), expect=at_most(300, If=0, Loop=1)),
    Case("eigh_empty", _eigh, [(0, 0)], ("eigh",), expect=["Identity", "Identity", "Identity"]),
    Case("eigh_repeated", _eigh, [_repeated], ("eigh",), expect=at_most(90, If=0, Loop=1)),
    Case("eigh_zero", _eigh, [np.zeros((3, 3), np.float32)], ("eigh",), expect=at_most(90, If=0, Loop=1)),
    Case("eigh_huge_numbers", lambda a: jnp.linalg.eigvalsh(a * 1e25), [(3, 3)], ("eigh",),
         expect=at_most(70, If=0, Loop=1)),
    Case("eigh_not_finite", jnp.linalg.eigvalsh, [_not_finite], ("eigh",), expect=at_most(70, If=0, Loop=1)),
    Case("eigh_64", _eigh, [(64, 64)], ("eigh",),
         expect=at_most(80, If=0, Loop=1)),
    Case("eigvalsh_gradient", jax.grad(lambda a: jnp.linalg.eigvalsh(a)[0]), [(4, 4)], ("eigh",),
         expect=at_most(80, If=0, Loop=1)),
    Case("eigvalsh_vmap", jax.vmap(jnp.linalg.eigvalsh), [("B", 3, 3)], ("eigh",), expect=at_most(80, If=0, Loop=1)),
]  # fmt: skip
