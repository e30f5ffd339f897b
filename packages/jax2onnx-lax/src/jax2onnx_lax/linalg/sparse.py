"""Sparse arrays of `jax.experimental.sparse`, by the computations of dense arrays with which JAX defines them."""

from __future__ import annotations

from collections.abc import Sequence

import jax
from jax2onnx_core import Rules
from jax2onnx_core.jax_types import Function

from jax2onnx_lax import _compat

__all__ = ["rules"]

rules = Rules()

_PRIMITIVES = (
    "todense",
    "bcoo_todense", "bcoo_fromdense", "bcoo_extract", "bcoo_transpose", "bcoo_sort_indices", "bcoo_sum_duplicates",
    "bcoo_dot_general", "bcoo_dot_general_sampled", "bcoo_spdot_general",
    "bcsr_todense", "bcsr_fromdense", "bcsr_extract", "bcsr_dot_general",
    "coo_todense", "coo_fromdense", "coo_matvec", "coo_matmat",
    "csr_todense", "csr_fromdense", "csr_matvec", "csr_matmat",
)  # fmt: skip


def _by_definition(name: str) -> Function:
    """The decomposition of the primitive; JAX's module is imported when the first one is lowered."""

    def computed(*operands: jax.Array, **params: object) -> jax.Array | Sequence[jax.Array]:
        return _compat.sparse_definition(name)(*operands, **params)

    return computed


for _name in _PRIMITIVES:
    rules.decompose(_name, _by_definition(_name))

rules.unsupported(
    ("coo_spmv", "coo_spmm", "csr_spmv", "csr_spmm"),
    "It calls a sparse library of an accelerator.",
    "Use jax.experimental.sparse.BCOO, or todense() and a dense product.",
)
rules.unsupported(
    "spsolve",
    "It calls SciPy's sparse solver, or that of an accelerator.",
    "Solve the dense system, jnp.linalg.solve(a.todense(), b), or use jax.scipy.sparse.linalg.cg.",
)
