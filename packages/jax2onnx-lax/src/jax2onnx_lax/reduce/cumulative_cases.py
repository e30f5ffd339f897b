"""Cases of `cumulative`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax2onnx_core import Case, expect_graph

from jax2onnx_lax._case_helpers import ASSUME_FINITE, at_most

__all__ = ["cases"]

_sum = "CumSum"


def _narrow(cumulative: Callable[..., jax.Array], x: jax.Array, dtype: Any) -> jax.Array:
    return cumulative(x.astype(dtype), 0).astype(x.dtype)


cases = [
    Case("cumsum", lambda x: lax.cumsum(x, 1), [("B", "N")], ("cumsum",), expect=at_most(3, CumSum=1)),
    Case("cumsum_reverse", lambda x: lax.cumsum(x, 1, reverse=True), [("B", 4)], ("cumsum",), _sum),
    Case("cumsum_of_many", lambda x: lax.cumsum(x.astype(np.float32), 0), [((1000, 2), np.float32)], ("cumsum",),
         expect="Cast -> CumSum -> Cast"),
    Case("cumsum_int64", lambda x: lax.cumsum(x, 0), [((5, 2), np.int64)], ("cumsum",), _sum),
    Case("cumsum_uint8", lambda x: lax.cumsum(x, 0), [((50, 2), np.uint8)], ("cumsum",), expect="Cast -> CumSum -> Cast"),
    Case("cumsum_uint32", lambda x: lax.cumsum(x * np.uint32(0x9E3779B9), 0), [((50, 2), np.uint32)], ("cumsum",),
         expect=at_most(6, CumSum=1)),
    Case("cumsum_float16", lambda x: lax.cumsum(x, 0), [((50, 2), np.float16)], ("cumsum",), rtol=1e-2, atol=3e-2,
         expect="Cast -> CumSum -> Cast"),
    Case("cumsum_complex", lambda x: lax.cumsum(x, 0), [((5, 2), np.complex64)], ("cumsum",),
         expect=["Gather -> CumSum -> Unsqueeze -> Concat", "Gather -> CumSum -> Unsqueeze -> Concat"]),
    Case("cumsum_empty", lambda x: lax.cumsum(x, 0), [(0, 2)], ("cumsum",), expect="Identity"),
    Case("cumsum_gradient", jax.grad(lambda x: (lax.cumsum(x, 0) ** 2).sum()), [(5, 2)], ("cumsum",),
         expect="CumSum -> Mul -> CumSum"),
    Case("cumprod", lambda x: lax.cumprod(x, 1), [("B", 9)], ("cumprod",),
         expect="Pad -> Mul -> Pad -> Mul -> Pad -> Mul -> Pad -> Mul"),
    Case("cumprod_symbolic", lambda x: lax.cumprod(x, 1, reverse=True), [(3, "N")], ("cumprod",),
         expect=at_most(40, If=1)),
    Case("cumprod_complex", lambda x: lax.cumprod(x, 0), [((5, 2), np.complex64)], ("cumprod",),
         expect=at_most(40, Gather=2)),
    Case("cummax", lambda x: lax.cummax(x, 1), [("B", 9)], ("cummax",), values="special",
         expect="Pad -> Max -> Pad -> Max -> Pad -> Max -> Pad -> Max"),
    Case("cummax_symbolic", lambda x: lax.cummax(x, 0), [("N", 3)], ("cummax",), values="special", expect="Scan"),
    Case("cummax_int8", lambda x: lax.cummax(x, 0, reverse=True), [((9, 3), np.int8)], ("cummax",),
         expect="Pad -> Max -> Pad -> Max -> Pad -> Max -> Pad -> Max"),
    Case("cummax_complex", lambda x: lax.cummax(x, 0), [((5, 2), np.complex64)], ("cummax",),
         expect=at_most(50, Gather=2)),
    Case("cummin", lambda x: lax.cummin(x, 1, reverse=True), [("B", 9)], ("cummin",), values="special",
         expect="Pad -> Min -> Pad -> Min -> Pad -> Min -> Pad -> Min"),
    Case("cummin_complex", lambda x: lax.cummin(x, 0), [((5, 2), np.complex64)], ("cummin",),
         expect=at_most(50, Gather=2)),
    Case("cummax_without_infinity", lambda x: _narrow(lax.cummax, x, jnp.float8_e4m3fn), [(5, 2)], ("cummax",),
         expect=at_most(20, Max=3)),
    Case("cummin_without_infinity", lambda x: _narrow(lax.cummin, x, jnp.float8_e5m2fnuz), [(5, 2)], ("cummin",),
         expect=at_most(20, Min=3)),
    Case("cumlogsumexp", lambda x: lax.cumlogsumexp(x, 1), [("B", 9)], ("cumlogsumexp",), expect=at_most(100)),
    Case("cumlogsumexp_symbolic", lambda x: lax.cumlogsumexp(x, 1, reverse=True), [("B", "N")], ("cumlogsumexp",),
         expect=["Shape -> Expand -> Scan -> Transpose", "Transpose -> Scan"]),
    Case(
        "cummax_of_finite",
        lambda x: lax.cummax(x, 1),
        [("B", 9)],
        ("cummax",),
        expect_graph(counts={"Max": 4, "IsNaN": 0}),
        options=ASSUME_FINITE,
    ),
]  # fmt: skip
