"""Cases of `searching`."""

from __future__ import annotations

import jax.numpy as jnp
from jax2onnx_core import Case

__all__ = ["cases"]

cases = [
    Case("searchsorted_symbolic", lambda x, y: jnp.searchsorted(jnp.sort(x), y, side="right"), [("N",), ("B", "T")],
         covers=("jax.numpy.searchsorted",), values="special"),
    Case("interp", lambda x, y: jnp.interp(y, jnp.arange(x.shape[0]), x), [("N",), ("B",)], covers=("jax.numpy.interp",)),
    Case("interp_of_a_period", lambda x, y: jnp.interp(y, x, x**2, period=3.0), [("N",), ("B",)],
         covers=("jax.numpy.interp",)),
    Case("ravel_multi_index", lambda x, i: jnp.ravel_multi_index((i, -i), x.shape, mode="wrap", order="F"),
         [("N", "M"), (("B",), "int32")], covers=("jax.numpy.ravel_multi_index",)),
    Case("packbits", lambda x: jnp.packbits(x, axis=0), [(("N", 2), "uint8")], covers=("jax.numpy.packbits",)),
    Case("packbits_of_some", lambda x: jnp.packbits(x[x > 0], bitorder="little"), [(("N",), "int32")],
         covers=("jax.numpy.packbits",)),
]  # fmt: skip
