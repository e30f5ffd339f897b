"""Cases of `searching`."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax2onnx_core import Case, expect_graph

from jax2onnx_lax._case_helpers import at_most

__all__ = ["cases"]

cases = [
    Case("searchsorted_symbolic", lambda x, y: jnp.searchsorted(jnp.sort(x), y, side="right"), [("N",), ("B", "T")],
         covers=("jax.numpy.searchsorted",), values="special"),
    Case("searchsorted_among_few", lambda y: jnp.searchsorted(jnp.array([-2, -0.0, 0, 1, jnp.inf], y.dtype), y), [("N", 2)],
         covers=("jax.numpy.searchsorted",), values="special", expect=at_most(6, Loop=0)),
    Case("searchsorted_right_of_few", lambda y: jnp.searchsorted(jnp.arange(4.0), y, side="right"), [("N",)],
         covers=("jax.numpy.searchsorted",), values="special", expect=at_most(7, Loop=0)),
    Case("searchsorted_mapped", lambda y: jax.vmap(lambda q: jnp.searchsorted(jnp.arange(4.0), q))(y), [("N", 3)],
         covers=("jax.numpy.searchsorted",), expect=at_most(7, Loop=0)),
    Case("searchsorted_mapped_among_rows", lambda x, y: jax.vmap(jnp.searchsorted)(jnp.sort(x), y), [(2, 5), (2, 3)],
         covers=("jax.numpy.searchsorted",)),
    Case("digitize", lambda y: jnp.digitize(y, jnp.arange(4) * 3), [(("N",), "int32")], covers=("jax.numpy.searchsorted",),
         expect=at_most(7, Loop=0)),
    Case("searchsorted_with_nan", lambda y: jnp.searchsorted(jnp.array([1, 2, jnp.nan], y.dtype), y, side="right"), [("N",)],
         covers=("jax.numpy.searchsorted",), values="special", expect=expect_graph(counts={"Loop": 1})),
    Case("searchsorted_out_of_order", lambda y: jnp.searchsorted(jnp.array([3, 1, 2, 0], y.dtype), y), [("N",)],
         covers=("jax.numpy.searchsorted",), expect=expect_graph(counts={"Loop": 1}),
         declines="the numbers are not known at export, or not in order"),
    Case("interp_between_few", lambda x: jnp.interp(x, jnp.arange(4.0), jnp.array([0.0, 1, 3, 2])), [("N",)],
         covers=("jax.numpy.searchsorted",), expect=expect_graph(absent=["Loop"])),
    Case("interp", lambda x, y: jnp.interp(y, jnp.arange(x.shape[0]), x), [("N",), ("B",)], covers=("jax.numpy.searchsorted",)),
    Case("interp_of_a_period", lambda x, y: jnp.interp(y, x, x**2, period=3.0), [("N",), ("B",)],
         covers=("jax.numpy.searchsorted",)),
    Case("ravel_multi_index", lambda x, i: jnp.ravel_multi_index((i, -i), x.shape, mode="wrap", order="F"),
         [("N", "M"), (("B",), "int32")], covers=("jax.numpy.ravel_multi_index",)),
    Case("packbits", lambda x: jnp.packbits(x, axis=0), [(("N", 2), "uint8")], covers=("jax.numpy.packbits",)),
    Case("packbits_of_some", lambda x: jnp.packbits(x[x > 0], bitorder="little"), [(("N",), "int32")],
         covers=("jax.numpy.packbits",)),
]  # fmt: skip
