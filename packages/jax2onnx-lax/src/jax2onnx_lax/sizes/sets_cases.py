"""Cases of `sets`."""

from __future__ import annotations

import jax.numpy as jnp
from jax2onnx_core import Case

__all__ = ["cases"]

_IDS = (("B",), "int32")

cases = [
    Case("unique", lambda x: jnp.unique(x), [_IDS], covers=("jax.numpy.unique",), expect="Cast -> Unique -> Cast"),
    Case("unique_results", lambda x: jnp.unique(x, True, True, True), [(("B", "T"), "int32")], covers=("jax.numpy.unique",)),
    Case("unique_numbers", lambda x: jnp.unique(x, True, True, True), [("B", "T")], covers=("jax.numpy.unique",),
         values="special"),
    Case("unique_rows", lambda x: jnp.unique(x, True, True, True, axis=0), [(("B", 2), "int32")],
         covers=("jax.numpy.unique",)),
    Case("unique_of_some", lambda x: jnp.unique(x[x > 1]), [_IDS], covers=("jax.numpy.unique",)),
    Case("unique_columns", lambda x: jnp.unique(x % 2, True, True, True, axis=1), [(("B", "T"), "int32")],
         covers=("jax.numpy.unique",)),
    Case("union1d", lambda x, y: jnp.union1d(x, y), [_IDS, (("T",), "int32")], covers=("jax.numpy.union1d",)),
    Case("intersect1d", lambda x, y: jnp.intersect1d(x, y, return_indices=True), [_IDS, (("T",), "int32")],
         covers=("jax.numpy.unique",)),
    Case("setdiff1d", lambda x, y: jnp.setdiff1d(x, y), [_IDS, (("T",), "int32")], covers=("jax.numpy.setdiff1d",)),
    Case("setxor1d", lambda x, y: jnp.setxor1d(x, y), [_IDS, (("T",), "int32")], covers=("jax.numpy.setxor1d",)),
]  # fmt: skip
