"""Cases of `eig`: the order is free, so eigenvalues are compared by power sums, vectors by their equations."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax2onnx_core import Case

from jax2onnx_lax._case_helpers import at_most
from jax2onnx_lax.linalg._matrix import adjoint

__all__ = ["cases"]


def _sums(w: jax.Array) -> list[jax.Array]:
    return [(w**k).sum(-1) for k in (1, 2, 3)]


def _right(a: jax.Array) -> tuple[list[jax.Array], jax.Array, jax.Array]:
    w, v = jnp.linalg.eig(a)
    lengths = jnp.sqrt((jnp.abs(v) ** 2).sum(-2))
    return _sums(w), lengths, 1 + jnp.abs(a.astype(v.dtype) @ v - v * w[..., None, :])


def _left(a: jax.Array) -> tuple[list[jax.Array], jax.Array]:
    w, v = lax.linalg.eig(a, compute_right_eigenvectors=False)
    return _sums(w), 1 + jnp.abs(adjoint(v) @ a.astype(v.dtype) - w[..., :, None] * adjoint(v))


def _values(a: jax.Array) -> list[jax.Array]:
    return _sums(jnp.linalg.eigvals(a))


_defective = np.array([[2.0, 1.0, 0.0], [0.0, 2.0, 1.0], [0.0, 0.0, 2.0]], np.float32)

cases = [
    Case("eig_1", jnp.linalg.eig, [np.array([[2.0]], np.float32)], ("eig",),
         expect=at_most(40, ReduceSum=2, MatMul=0, ReduceMax=1)),
    Case("eig_3", _right, [(3, 3)], ("eig",), expect=at_most(280, If=1, Loop=3, Scan=3)),
    Case("eig_batch", _right, [(2, 3, 8, 8)], ("eig",), expect=at_most(270, If=1, Loop=3, Scan=3)),
    Case("eig_symbolic_batch", _right, [("B", 4, 4)], ("eig",), expect=at_most(310, If=1, Loop=3, Scan=3)),
    Case("eig_complex", _right, [((2, 5, 5), np.complex64)], ("eig",), expect=at_most(310, If=1, Loop=1, Scan=3)),
    Case("eig_left", _left, [(4, 4)], ("eig",), expect=at_most(280, If=1, Loop=3, Scan=3)),
    Case("eig_left_complex", _left, [((4, 4), np.complex64)], ("eig",), expect=at_most(320, If=1, Loop=1, Scan=3)),
    Case("eig_empty", jnp.linalg.eigvals, [(0, 0)], ("eig",), expect="Identity"),
    Case("eig_defective", _values, [_defective], ("eig",), expect=at_most(90, Loop=2, Scan=2)),
    Case("eigvals", _values, [(6, 6)], ("eig",), expect=at_most(90, Loop=2, Scan=2)),
    Case("roots", lambda c: _sums(jnp.roots(jnp.concatenate([jnp.ones(1, c.dtype), c]), strip_zeros=False)), [(4,)],
         ("eig",), expect=at_most(130, Loop=2, Scan=2)),
]  # fmt: skip
