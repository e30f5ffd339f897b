"""Cases of `conditionals`."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax2onnx_core import Case, expect_graph

from jax2onnx_lax._case_helpers import at_most

__all__ = ["cases"]


def _switch(index: jax.Array, x: jax.Array) -> jax.Array:
    return lax.switch(index, [jnp.sin, jnp.cos, lambda x: x, lambda x: 2 * x, jnp.negative], x)


def _cond_of_tuples(x: jax.Array, y: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    return lax.cond(x.sum() > 0, lambda x, y: (x, y + 1, 3.0), lambda x, y: (y, x, -1.0), x, y)


cases = [
    Case("cond", lambda x, y: lax.cond(x.sum() > 0, jnp.add, jnp.subtract, x, y), [("N", 3), ("N", 3)],
         covers=("cond",), expect=expect_graph(counts={"If": 1, "Cast": 0, "Add": 1, "Sub": 1}, search_functions=True)),
    Case("cond_of_tuples", _cond_of_tuples, [("N", 3), ("N", 3)], covers=("cond",), expect="ReduceSum -> Greater -> If"),
    Case("cond_constant", lambda x: lax.cond(True, jnp.sin, jnp.cos, x), [(3,)], covers=("cond",), expect="Sin:3"),
    Case("cond_vmapped", jax.vmap(lambda x: lax.cond(x.sum() > 0, jnp.sin, jnp.cos, x)), [("N", 3)], covers=("cond",),
         expect=at_most(20, ReduceSum=1)),
    Case("cond_grad", jax.grad(lambda x: lax.cond(x.sum() > 0, jnp.sin, jnp.cos, x).sum()), [("N", 3)],
         covers=("cond",), expect=["Shape -> Concat -> Expand", "ReduceSum -> Greater -> If", "If"]),
    *(Case(f"switch_{index}".replace("-", "below_"), _switch, [np.array(index, np.int32), ("N", 3)], covers=("cond",),
           expect=expect_graph(counts={"If": 4}, search_functions=True)) for index in (-1, 0, 1, 2, 3, 4, 7)),
    Case("switch_vmapped", jax.vmap(_switch), [np.array([0, 3, 1, 4], np.int32), (4, 3)], covers=("cond",),
         expect=at_most(40)),
]  # fmt: skip
