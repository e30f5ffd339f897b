"""Cases of `triangular`."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax2onnx_core import Case
from jax2onnx_core.plugins.cases import CaseRun
from jax2onnx_graph import ir

from jax2onnx_lax._case_helpers import at_most
from jax2onnx_lax.linalg._samples import definite, dominant

__all__ = ["cases"]


def _cholesky(a: jax.Array) -> jax.Array:
    return jnp.linalg.cholesky(definite(a))


def _solve(a: jax.Array, b: jax.Array, **options: bool) -> jax.Array:
    return lax.linalg.triangular_solve(dominant(a), b, **options)


def _update(a: jax.Array, w: jax.Array) -> jax.Array:
    return lax.linalg.cholesky_update(jnp.triu(dominant(a)), w)


def _product(a: jax.Array, c: jax.Array) -> jax.Array:
    return lax.linalg.symmetric_product(a, c @ c.T, alpha=2.0, beta=0.5, symmetrize_output=True)


def _is_lower(model: ir.Model, run: CaseRun) -> None:
    for name, factor in run.outputs.items():
        assert not np.triu(factor, 1).any(), f"above the diagonal of {name!r} is a number that is not 0"


_left = partial(_solve, left_side=True)
_indefinite = np.array([[[1.0, 2.0], [2.0, 1.0]], [[2.0, 1.0], [1.0, 2.0]]], np.float32)

cases = [
    Case("cholesky_1", _cholesky, [(1, 1)], ("cholesky",), expect=at_most(20, MatMul=1, ReduceMin=1, ReduceSum=1)),
    Case("cholesky_3", _cholesky, [(3, 3)], ("cholesky",), expect=at_most(20, Scan=1)),
    Case("cholesky_batch", _cholesky, [(2, 3, 8, 8)], ("cholesky",), check=_is_lower, expect=at_most(20, Scan=1)),
    Case("cholesky_symbolic", _cholesky, [("B", "N", "N")], ("cholesky",), expect=at_most(40, Scan=1)),
    Case("cholesky_complex", _cholesky, [((2, 4, 4), np.complex64)], ("cholesky",), expect=at_most(110, Scan=1)),
    Case("cholesky_empty", _cholesky, [(3, 0, 0)], ("cholesky",), expect="Identity"),
    Case("cholesky_fails", jnp.linalg.cholesky, [_indefinite], ("cholesky",), expect=at_most(20, Scan=1)),
    Case("cholesky_large", _cholesky, [(100, 100)], ("cholesky",), expect=at_most(30, Scan=1)),
    Case("cholesky_gradient", jax.grad(lambda a: _cholesky(a).sum()), [(3, 3)], ("cholesky", "triangular_solve"),
         expect=at_most(40, Scan=3)),
    Case("cholesky_vmap", jax.vmap(_cholesky), [("B", 3, 3)], ("cholesky",), expect=at_most(20, Scan=1)),
    Case("triangular_solve_1", _left, [(1, 1), (1, 2)], ("triangular_solve",),
         expect=["Div -> Add -> ReduceSum -> Div -> Unsqueeze", "Squeeze -> Div"]),
    Case("triangular_solve_upper", _left, [(8, 8), (8, 2)], ("triangular_solve",),
         expect=["Div -> Add -> Where -> ReduceSum -> Scan", "Transpose -> Unsqueeze -> Scan"]),
    Case("triangular_solve_lower", partial(_left, lower=True), [(2, 3, 8, 8), (2, 3, 8, 2)], ("triangular_solve",),
         expect=at_most(20, Scan=1)),
    Case("triangular_solve_right", _solve, [("B", 3, 3), ("B", 2, 3)], ("triangular_solve",), expect=at_most(20, Scan=1)),
    Case("triangular_solve_unit", partial(_left, unit_diagonal=True), [("N", "N"), ("N", 2)], ("triangular_solve",),
         expect=at_most(20, Scan=1)),
    Case("triangular_solve_transposed", partial(_left, lower=True, transpose_a=True), [(3, 3), (3, 1)],
         ("triangular_solve",), expect=["Div -> Add -> Where -> ReduceSum -> Unsqueeze -> Scan", "Unsqueeze -> Scan"]),
    Case("triangular_solve_adjoint", partial(_left, transpose_a=True, conjugate_a=True),
         [((3, 3), np.complex64), ((3, 2), np.complex64)], ("triangular_solve",), expect=at_most(100, Scan=1)),
    Case("triangular_solve_conjugate", partial(_solve, conjugate_a=True),
         [((3, 3), np.complex64), ((2, 3), np.complex64)], ("triangular_solve",), expect=at_most(110, Scan=1)),
    Case("triangular_solve_gradient", jax.grad(lambda a, b: _left(a, b).sum(), (0, 1)), [(3, 3), (3, 2)],
         ("triangular_solve",), expect=at_most(20, Scan=3)),
    Case("cho_solve", lambda a, b: jax.scipy.linalg.cho_solve(jax.scipy.linalg.cho_factor(definite(a)), b),
         [(5, 5), (5,)], ("cholesky", "triangular_solve"), expect=at_most(30, Scan=3)),
    Case("cholesky_update", _update, [(5, 5), (5,)], ("cholesky_update",),
         expect="Div -> Add -> Where -> GatherElements -> Squeeze -> Abs -> Scan"),
    Case("symmetric_product", _product, [(4, 6), (4, 4)], ("symmetric_product",), expect=at_most(20, MatMul=2)),
]  # fmt: skip
