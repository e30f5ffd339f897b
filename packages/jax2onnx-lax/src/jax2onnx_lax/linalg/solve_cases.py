"""Cases of `solve`."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax2onnx_core import Case

from jax2onnx_lax._case_helpers import at_most
from jax2onnx_lax.linalg._samples import dominant

__all__ = ["cases"]


def _solve(a: jax.Array, b: jax.Array) -> jax.Array:
    return jnp.linalg.solve(dominant(a), b)


def _tridiagonal(dl: jax.Array, d: jax.Array, du: jax.Array, b: jax.Array) -> jax.Array:
    return lax.linalg.tridiagonal_solve(dl.at[..., 0].set(0), d, du.at[..., -1].set(0), b)


def _perturbed(d: jax.Array, b: jax.Array) -> jax.Array:
    lower, upper = (jnp.zeros_like(d).at[outside].set(1e30) for outside in (0, -1))  # outside of the matrix
    return jnp.abs(lax.linalg.tridiagonal_solve(lower, d, upper, b, perturb_singular=True)) > 1e5


def _conjugate_gradients(a: jax.Array, b: jax.Array) -> jax.Array:
    return jax.scipy.sparse.linalg.cg(lambda x: a.T @ (a @ x) + x, b, maxiter=50)[0]


_vanishing = np.array([1.0, 0.0, 2.0], np.float32)

cases = [
    Case("solve_1", _solve, [(1, 1), (1,)], ("custom_linear_solve",),
         expect=at_most(10, Div=2, ReduceSum=1, Where=0)),
    Case("solve_vector", _solve, [(3, 3), (3,)], ("custom_linear_solve",), expect=at_most(20, Scan=3)),
    Case("solve_matrix", _solve, [("B", 8, 8), ("B", 8, 2)], ("custom_linear_solve",), expect=at_most(50, Scan=3)),
    Case("solve_symbolic", _solve, [("N", "N"), ("N", 2)], ("custom_linear_solve",), expect=at_most(50, Scan=3)),
    Case("solve_complex", _solve, [((2, 3, 3), np.complex64), ((2, 3, 2), np.complex64)], ("custom_linear_solve",),
         expect=at_most(150, Scan=3)),
    Case("solve_gradient", jax.grad(lambda a, b: _solve(a, b).sum(), (0, 1)), [(4, 4), (4,)], ("custom_linear_solve",),
         expect=at_most(40, Scan=5)),
    Case("inverse", lambda a: jnp.linalg.inv(dominant(a)), [(2, 5, 5)], ("custom_linear_solve",),
         expect=at_most(40, Scan=3)),
    Case("conjugate_gradients", _conjugate_gradients, [(4, 4), (4,)], ("custom_linear_solve",), rtol={"f32": 1e-3},
         expect=at_most(20, Loop=1)),
    Case("tridiagonal_solve_1", _tridiagonal, [(1,), (1,), (1,), (1, 2)], ("tridiagonal_solve",),
         expect=["Squeeze -> Sub -> Sub -> Div -> Where", "Equal -> Not -> Cast -> ReduceMin -> Cast -> Where"]),
    Case("tridiagonal_solve", _tridiagonal, [(8,), (8,), (8,), (8, 2)], ("tridiagonal_solve",), rtol={"f32": 1e-3},
         expect=at_most(40, Scan=2)),
    Case("tridiagonal_solve_batch", lambda dl, d, du, b: _tridiagonal(dl, 3 + d * d, du, b),
         [("B", 5), ("B", 5), ("B", 5), ("B", 5, 1)], ("tridiagonal_solve",), expect=at_most(50, Scan=2)),
    Case("tridiagonal_solve_singular", lambda d, b: lax.linalg.tridiagonal_solve(0 * d, d, 0 * d, b),
         [_vanishing, (3, 2)], ("tridiagonal_solve",), expect=at_most(40, Scan=2)),
    Case("tridiagonal_solve_perturbed", _perturbed, [_vanishing, np.ones((3, 2), np.float32)], ("tridiagonal_solve",),
         expect=at_most(100, Scan=2)),
]  # fmt: skip
