"""Cases of `associative_scans`."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax
from jax2onnx_core import Case, expect_graph

from jax2onnx_lax._case_helpers import at_most

__all__ = ["cases"]

_Pair = tuple[jax.Array, jax.Array]


def _affine(left: _Pair, right: _Pair) -> _Pair:
    return left[0] * right[0], right[0] * left[1] + right[1]


cases = [
    Case("associative_scan_of_affine_maps",
         lambda a, x: lax.associative_scan(_affine, (jnp.tanh(a), x), axis=1)[1], [("B", "T", 3), ("B", "T", 3)],
         covers=("jax.lax.associative_scan",), expect=expect_graph(counts={"If": 1})),
    Case("associative_scan_of_sums", lambda x: lax.associative_scan(jnp.add, x), [("T", 3)],
         covers=("jax.lax.associative_scan",), expect=at_most(3, CumSum=1)),
    Case("associative_scan_of_some", lambda x: lax.associative_scan(lambda a, b: jnp.where(b > 1, b, a), x[x > 0]), [("T",)],
         covers=("jax.lax.associative_scan",)),
    Case("associative_scan_of_matrices", lambda x: lax.associative_scan(jnp.matmul, jnp.tanh(x) / 2, reverse=True), [("T", 2, 2)],
         covers=("jax.lax.associative_scan",), expect=at_most(20, If=1),
         declines="there are too many gathered matrices for one product each, or their sizes are not known"),
    Case("associative_scan_of_many", lambda x: lax.associative_scan(lambda a, b: jnp.where(b > 0, b, a), x), [(300, 2)],
         covers=("jax.lax.associative_scan",), expect=expect_graph(absent=["If"])),
]  # fmt: skip
