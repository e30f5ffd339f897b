"""Cases of `schur`: order and signs are free, so the factors are compared by what they reconstruct."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax2onnx_core import Case

from jax2onnx_lax._case_helpers import at_most
from jax2onnx_lax.linalg._matrix import adjoint
from jax2onnx_lax.linalg._samples import definite

__all__ = ["cases"]


def _schur(a: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    t, q = lax.linalg.schur(a)
    return q @ t @ adjoint(q), adjoint(q) @ q, jnp.abs(jnp.tril(t, -2)).max()


def _schur_relative(a: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The matrix that the factors make, relative to its largest entry, and the product of the unitary factor with itself."""
    t, q = lax.linalg.schur(a)
    return q @ (t / jnp.abs(a).max()) @ adjoint(q), adjoint(q) @ q


def _form(a: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The diagonal of t and what is left below its diagonal, for eigenvalues that are real."""
    (t,) = lax.linalg.schur(definite(a), compute_schur_vectors=False)
    return jnp.sort(jnp.diagonal(t, axis1=-2, axis2=-1), axis=-1), jnp.abs(jnp.tril(t, -1)).max((-1, -2))


_shift = np.roll(np.eye(4, dtype=np.float32), 1, axis=0)

cases = [
    Case("schur_1", lambda a: lax.linalg.schur(a), [(1, 1)], ("schur",),
         expect=["Abs -> Abs -> Less -> Cast -> ReduceMin -> Cast -> Where", "Reshape -> Where"]),
    Case("schur_3", _schur, [(3, 3)], ("schur",), expect=at_most(70, Loop=2, Scan=2)),
    Case("schur_batch", _schur, [(2, 3, 8, 8)], ("schur",), expect=at_most(70, Loop=2, Scan=2)),
    Case("schur_symbolic_batch", _schur, [("B", 4, 4)], ("schur",), expect=at_most(80, Loop=2, Scan=2)),
    Case("schur_complex", _schur, [((2, 5, 5), np.complex64)], ("schur",), expect=at_most(190, Loop=1, Scan=2)),
    Case("schur_cyclic", _schur, [_shift], ("schur",), expect=at_most(70, Loop=2, Scan=2)),
    *(Case(f"schur_of_{name}_numbers", lambda a, factor=factor: _schur_relative(a * factor), [(4, 4)], ("schur",), expect=at_most(80, Loop=2, Scan=2),
           skip={"f64": "The factor is for float32."})
      for name, factor in (("small", 1e-30), ("large", 1e25))),
    Case("schur_form_only", _form, [(2, 4, 4)], ("schur",), expect=at_most(70, Loop=2, Scan=2)),
    Case("sqrtm", lambda a: jax.scipy.linalg.sqrtm(definite(a)), [(4, 4)], ("schur",),
         expect=at_most(210, Loop=2, Scan=2)),
]  # fmt: skip
