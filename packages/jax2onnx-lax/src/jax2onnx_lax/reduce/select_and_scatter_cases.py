"""Cases of `select_and_scatter`."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax2onnx_core import Case, Jaxpr
from jax2onnx_graph.build.builder import DtypeLike

from jax2onnx_lax._case_helpers import Fn, at_most
from jax2onnx_lax.padding import Pairs

__all__ = ["cases"]


def _pool(
    x: jax.Array, window: Sequence[int], strides: Sequence[int], padding: str | Pairs = "VALID", least: bool = False
) -> jax.Array:
    initial = np.asarray(np.inf if least else -np.inf, x.dtype)
    return lax.reduce_window(x, initial, lax.min if least else lax.max, window, strides, padding)


def _gradient(window: Sequence[int], strides: Sequence[int], padding: str = "VALID", *, least: bool = False) -> Fn:
    return jax.grad(lambda x: (_pool(x, window, strides, padding, least) ** 2).sum())


def _derivative(window: Sequence[int], strides: Sequence[int], padding: str = "VALID", *, least: bool = False) -> Fn:
    return lambda x, t: jax.jvp(lambda y: _pool(y, window, strides, padding, least), (x,), (t,))[1]


def _scatter_from(x: jax.Array) -> jax.Array:
    source = jnp.arange(1, 5, dtype=x.dtype)
    return lax.select_and_scatter_p.bind(
        x, source, jnp.asarray(2, x.dtype), window_dimensions=(2,), window_strides=(2,), padding=((0, 0),),
        **_jaxprs(x.dtype),
    )  # fmt: skip


def _jaxprs(dtype: DtypeLike) -> dict[str, Jaxpr | tuple[()]]:
    scalar = jax.ShapeDtypeStruct((), dtype)
    select, add = jax.make_jaxpr(lax.ge)(scalar, scalar), jax.make_jaxpr(lax.add)(scalar, scalar)
    return {"select_jaxpr": select.jaxpr, "select_consts": (), "scatter_jaxpr": add.jaxpr, "scatter_consts": ()}


_scatter, _gather = ("select_and_scatter_add",), ("select_and_gather_add",)

cases = [
    Case("gradient_nhwc", _gradient((1, 2, 2, 1), (1, 2, 2, 1)), [("B", 6, 8, 3)], _scatter, expect=at_most(90, If=1)),
    Case("gradient_overlapping", _gradient((3, 3), (2, 1), "SAME"), [(7, 8)], _scatter, expect=at_most(60, If=1)),
    Case("gradient_symbolic", _gradient((1, 2), (1, 2)), [("B", "N + 1")], _scatter, expect=at_most(110, If=1)),
    Case("gradient_of_none", jax.grad(lambda x: _pool(x[1:], (2, 1), (1, 1), "SAME").sum()), [("N", "C")], _scatter,
         expect=at_most(110, ReduceMax=3, ReduceMin=1, ReduceSum=1)),
    Case(
        "gradient_of_none_padded",
        jax.grad(lambda x: _pool(x[1:], (2, 1), (1, 1), ((1, 1), (0, 0))).sum()),
        [("N", "C")],
        _scatter,
        expect=at_most(120, ReduceMax=3, ReduceMin=1, ReduceSum=1),
    ),
    Case("gradient_of_tiles", _gradient((1, 2, 3, 1), (1, 2, 3, 1)), [("B", 5, 8, 3)], _scatter, expect=at_most(60, If=1)),
    Case("gradient_of_min", _gradient((1, 3), (1, 2), least=True), [(4, 9)], _scatter, expect=at_most(50, If=1)),
    Case("derivative", _derivative((2, 3), (1, 2), "SAME"), [(6, 7), (6, 7)], _gather,
         expect=at_most(60, ReduceMax=3, ReduceMin=1, ReduceSum=1)),
    Case("derivative_of_min", _derivative((2, 3), (2, 1), least=True), [(6, 7), (6, 7)], _gather,
         expect=at_most(50, ReduceMin=2, ReduceMax=1, ReduceSum=1)),
    Case("scatter_from_two", _scatter_from, [(8,)], ("select_and_scatter",),
         expect=at_most(30, ReduceMax=2, ReduceMin=1, ReduceSum=1)),
]  # fmt: skip
