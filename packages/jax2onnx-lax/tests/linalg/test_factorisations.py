"""Factorisations of matrices whose sizes are not known: what `jax.export` takes is taken, and right at every size."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax2onnx_core import to_onnx
from jax2onnx_lax.linalg._matrix import adjoint
from jax2onnx_lax.linalg._samples import definite
from jax2onnx_testing.checks import check_at_sizes

Results = jax.Array | tuple[jax.Array, ...]


def _eig(a: jax.Array) -> Results:
    w, left, right = lax.linalg.eig(a)
    return (
        w.sum(-1),
        1 + jnp.abs(a @ right - right * w[..., None, :]),
        1 + jnp.abs(adjoint(left) @ a - w[..., None] * adjoint(left)),
    )


def _schur(a: jax.Array) -> Results:
    t, q = lax.linalg.schur(a)
    return q @ t @ adjoint(q), adjoint(q) @ q


def _svd(a: jax.Array, *, full_matrices: bool = False) -> Results:
    u, s, vh = lax.linalg.svd(a, full_matrices=full_matrices)
    return s, adjoint(u) @ u, vh @ adjoint(vh)


def _reconstructed(a: jax.Array) -> Results:
    u, s, vh = lax.linalg.svd(a, full_matrices=False)
    return (u * s[..., None, :].astype(u.dtype)) @ vh


_SQUARE: dict[str, Callable[[jax.Array], Results]] = {
    "cholesky": lambda a: lax.linalg.cholesky(definite(a), symmetrize_input=False),
    "eig": _eig,
    "eig_of_complex": lambda a: _eig(lax.complex(a, a.mT)),
    "eig_under_vmap": lambda a: jax.vmap(_eig)(jnp.stack([a, -a])),
    "eigh": lambda a: lax.linalg.eigh(definite(a))[1],
    "lu": lambda a: lax.linalg.lu(definite(a)),
    "qr": lambda a: adjoint(lax.linalg.qr(a)[0]) @ lax.linalg.qr(a)[0],
    "schur": _schur,
    "schur_of_complex": lambda a: _schur(lax.complex(a, a.mT)),
    "svd": _svd,
    "symmetric_product": lambda a: lax.linalg.symmetric_product(a, a),
    "triangular_solve": lambda a: lax.linalg.triangular_solve(definite(a), a, left_side=True, lower=True),
    "tridiagonal": lambda a: lax.linalg.tridiagonal(definite(a)),
    "eigh_grad": jax.grad(lambda a: lax.linalg.eigh(definite(a))[1].sum()),
}
_RECTANGULAR: dict[str, Callable[[jax.Array], Results]] = {
    "lu": lambda a: lax.linalg.lu(a)[0],
    "svd": _svd,
    "svd_full": lambda a: _svd(a, full_matrices=True),
    "svd_reconstructed": _reconstructed,
    "svd_of_complex": lambda a: _svd(lax.complex(a, 2 * a + 1)),
    "svd_of_rank_1": lambda a: _svd(a[:, :1] * a[:1]),
    "svd_of_zeros": lambda a: _svd(0 * a),
    "svd_under_vmap": lambda a: jax.vmap(_svd)(jnp.stack([a, -a])),
    "svd_grad": jax.grad(lambda a: lax.linalg.svd(a, full_matrices=False, compute_uv=False).sum()),
    "norm": lambda a: jnp.linalg.norm(a, 2),
}


def _check_export(function: Callable[[jax.Array], Results], shape: str) -> None:
    spec = jax.ShapeDtypeStruct(jax.export.symbolic_shape(shape), np.float32)
    jax.export.export(jax.jit(function))(spec)


@pytest.mark.parametrize("name", _SQUARE)
def test_a_symbolic_size(name: str) -> None:
    _check_export(_SQUARE[name], "N, N")
    program = to_onnx(_SQUARE[name], [("N", "N")])
    check_at_sizes(program, [{"N": 1}, {"N": 2}, {"N": 5}], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", _RECTANGULAR)
def test_two_symbolic_sizes(name: str) -> None:
    _check_export(_RECTANGULAR[name], "M, N")
    program = to_onnx(_RECTANGULAR[name], [("M", "N")])
    sizes = [{"M": m, "N": n} for m, n in ((1, 1), (1, 3), (3, 1), (4, 3), (3, 4), (5, 5))]
    check_at_sizes(program, sizes, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", sorted(_SQUARE.keys() - {"tridiagonal", "eigh_grad"}))
def test_a_size_that_may_be_zero(name: str) -> None:
    program = to_onnx(_SQUARE[name], [("N", "N")], constraints=["N >= 0"])
    check_at_sizes(program, [{"N": 0}, {"N": 1}, {"N": 3}], rtol=1e-3, atol=1e-4)


def test_hessenberg_of_a_symbolic_size() -> None:
    program = to_onnx(lax.linalg.hessenberg, [("B", "N", "N")])
    check_at_sizes(program, [{"B": 2, "N": 1}, {"B": 1, "N": 2}, {"B": 2, "N": 5}], rtol=1e-3, atol=1e-4)
