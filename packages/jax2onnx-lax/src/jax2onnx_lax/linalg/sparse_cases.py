"""Cases of `sparse`: dense operands are made sparse, and results dense, in the function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.experimental.sparse
import jax.numpy as jnp
import numpy as np
from jax2onnx_core import Case

from jax2onnx_lax._case_helpers import Expect, at_most

__all__ = ["cases"]

# Its functions have no types.
sparse: Any = jax.experimental.sparse

_A = np.array([[1, 0, 2, 0], [0, 0, 3, 0], [0, 4, 0, 5]], np.float32)
_B = np.arange(8, dtype=np.float32).reshape(4, 2)

_Arrays = jax.Array | tuple[jax.Array, ...]


def _bcoo(a: jax.Array) -> Any:
    return sparse.BCOO.fromdense(a, nse=5)


def _bcsr(a: jax.Array) -> Any:
    return sparse.BCSR.fromdense(a, nse=5)


def _csr(a: jax.Array) -> Any:
    return sparse.CSR.fromdense(a, nse=5)


def _coo(a: jax.Array) -> Any:
    return sparse.COO.fromdense(a, nse=5)


def _case(name: str, fn: Callable[[jax.Array, jax.Array], _Arrays], *covers: str, expect: Expect) -> Case:
    return Case(name, fn, [_A, _B], covers, expect)


def _sampled(a: jax.Array, b: jax.Array) -> jax.Array:
    return sparse.bcoo_dot_general_sampled(b.T, a.T, _bcoo(a[:2, :3]).indices, dimension_numbers=(([1], [0]), ([], [])))


def _batched(a: jax.Array, b: jax.Array) -> jax.Array:
    both = sparse.BCOO.fromdense(jnp.stack([a, 2 * a]), n_batch=1, nse=5)
    return sparse.bcoo_dot_general(both, jnp.stack([b, b]), dimension_numbers=(([2], [1]), ([0], [0])))


cases = [
    _case("bcoo_fromdense", lambda a, b: (_bcoo(a).data, _bcoo(a).indices), "bcoo_fromdense", "bcoo_extract",
          expect=at_most(100, CumSum=2, GatherND=1, ScatterElements=1)),
    _case("bcoo_todense", lambda a, b: _bcoo(a).todense(), "bcoo_todense",
          expect=at_most(120, CumSum=2, GatherND=1, ScatterElements=2)),
    _case("bcoo_matmul", lambda a, b: _bcoo(a) @ b, "bcoo_dot_general",
          expect=at_most(120, CumSum=2, ScatterElements=2, Gather=2)),
    _case("bcoo_matmul_batched", _batched, "bcoo_dot_general",
          expect=at_most(140, CumSum=2, ScatterElements=2)),
    _case("bcoo_matmul_vmapped", lambda a, b: jax.vmap(lambda b: _bcoo(a) @ b, 1)(b), "bcoo_dot_general",
          expect=at_most(120, CumSum=2, ScatterElements=2, Gather=2)),
    _case("bcoo_matmul_grad", lambda a, b: jax.grad(lambda a, b: jnp.sin(_bcoo(a) @ b).sum(), (0, 1))(a, b),
          "bcoo_dot_general", "bcoo_extract", expect=at_most(170, ScatterElements=4, CumSum=2)),
    _case("bcoo_matmul_sampled", _sampled, "bcoo_dot_general_sampled",
          expect=at_most(100, CumSum=2, MatMul=2, ScatterElements=1)),
    _case("bcoo_matmul_sparse", lambda a, b: (_bcoo(a) @ sparse.BCOO.fromdense(b, nse=8)).todense(), "bcoo_spdot_general",
          expect=at_most(330, ScatterElements=6, CumSum=6, ReduceMin=3)),
    _case("bcoo_transpose", lambda a, b: _bcoo(a).T.todense(), "bcoo_transpose",
          expect=at_most(120, CumSum=2, ScatterElements=2, Gather=1)),
    _case("bcoo_sort", lambda a, b: _bcoo(a).T.sort_indices().data, "bcoo_sort_indices",
          expect=at_most(110, CumSum=2, TopK=2, ScatterElements=1)),
    _case("bcoo_sum_duplicates", lambda a, b: (_bcoo(a) + _bcoo(a)).sum_duplicates(nse=5).data, "bcoo_sum_duplicates",
          expect=at_most(140, CumSum=3, ScatterElements=3, ReduceMax=2)),
    _case("bcoo_arithmetic", lambda a, b: (_bcoo(a) * 2 * a + _bcoo(a)).todense(), "bcoo_todense",
          expect=at_most(130, CumSum=2, GatherND=1, ScatterElements=2)),
    _case("bcoo_structure", lambda a, b: (_bcoo(a)[1:, :2].todense(), _bcoo(a).reshape(4, 3).todense(), _bcoo(a).sum(0).todense()),
          "bcoo_todense", expect=at_most(310, ScatterElements=7, CumSum=4, ReduceMax=3)),
    _case("sparsify", lambda a, b: sparse.sparsify(lambda s, b: jnp.sin(s @ b).sum())(_bcoo(a), b), "bcoo_dot_general",
          expect=at_most(120, CumSum=2, ScatterElements=2, ReduceSum=1)),
    _case("sparse_todense", lambda a, b: sparse.todense(_bcoo(a)), "todense",
          expect=at_most(120, CumSum=2, GatherND=1, ScatterElements=2)),
    _case("bcsr", lambda a, b: (_bcsr(a).todense(), _bcsr(a) @ b, sparse.bcsr_extract(_bcsr(a).indices, _bcsr(a).indptr, a)),
          "bcsr_fromdense", "bcsr_todense", "bcsr_dot_general", "bcsr_extract",
          expect=at_most(170, ScatterElements=5, CumSum=4, Gather=2)),
    _case("csr", lambda a, b: (_csr(a).todense(), _csr(a) @ b, _csr(a) @ b[:, 0]),
          "csr_fromdense", "csr_todense", "csr_matvec", "csr_matmat",
          expect=at_most(150, ScatterElements=6, CumSum=4, Gather=2)),
    _case("coo", lambda a, b: (_coo(a).todense(), _coo(a) @ b, _coo(a) @ b[:, 0]),
          "coo_fromdense", "coo_todense", "coo_matvec", "coo_matmat",
          expect=at_most(130, ScatterElements=4, CumSum=2, Gather=2)),
    Case("bcoo_of_symbolic_columns", lambda b: _bcoo(jnp.asarray(_A, b.dtype)) @ b, [(4, "N")], ("bcoo_dot_general",),
         expect=at_most(10, Gather=1, ScatterElements=1)),
]  # fmt: skip
