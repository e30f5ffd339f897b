"""Cases of `while_loops`."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax2onnx_core import Case, expect_graph

__all__ = ["cases"]

_Swapped = tuple[jax.Array, jax.Array, jax.Array, jax.Array]


def _collatz_like(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    return lax.while_loop(lambda state: state[1].sum() < 100, lambda state: (state[0] + 1, state[1] * 2), (0, x))


def _swap(x: jax.Array) -> _Swapped:
    def body(state: _Swapped) -> _Swapped:
        count, a, b, fixed = state
        return count - 1, b, a + fixed, fixed

    return lax.while_loop(lambda state: state[0] > 0, body, (5, x, 2 * x, x + 1))


def _over_rows(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    return lax.while_loop(lambda s: s[0] < 7, lambda s: (s[0] + 1, jnp.sin(s[1]) + x[s[0]]), (0, x[0]))


cases = [
    Case("while", _collatz_like, [("N", 3)], covers=("while",), values="positive",
         expect=expect_graph(counts={"Loop": 1, "Less": 2}, search_functions=True)),
    Case("while_vmapped", jax.vmap(_collatz_like), [("N", 3)], covers=("while",), values="positive",
         expect=["Shape -> Expand -> Loop", "ReduceSum -> Less -> Cast -> ReduceMax -> Cast -> Loop"]),
    Case("while_vmapped_twice", jax.vmap(jax.vmap(_collatz_like)), [("N", 2, 3)], covers=("while",),
         values="positive",
         expect=["Shape -> Concat -> Expand -> Loop", "ReduceSum -> Less -> Cast -> ReduceMax -> Cast -> Loop"]),
    Case("while_swaps", _swap, [("N", 3)], covers=("while",), expect=["Mul -> Loop", "Add"]),
    Case("while_never", lambda x: lax.while_loop(lambda v: v.sum() < -1e9, jnp.sin, x), [("N", 3)], covers=("while",),
         expect="ReduceSum -> Less -> Loop"),
    *(Case(f"fori_from_2_to_{n}".replace("-", "minus_"), lambda n, x: lax.fori_loop(2, n, lambda i, v: v * i, x),
           [np.array(n, np.int32), ("N", 3)], covers=("while",),
           expect=expect_graph(counts={"Loop": 1, "Less": 0}, search_functions=True)) for n in (-4, 2, 3, 6)),
    Case("fori_between_inputs", lambda a, b, x: lax.fori_loop(a, b, lambda i, v: v + i, x),
         [np.array(-3, np.int32), np.array(4, np.int32), (3,)], covers=("while",),
         expect=["Cast -> Sub -> Loop", "Cast -> Sub"]),
    *(Case(f"while_of_{n}_iterations",
           lambda x, n=n: lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, jnp.sin(s[1]), s[1]), (3 - n, x, x)), [("N", 3)],
           covers=("while",), expect=expect_graph(counts={"Sin": n}, absent=["Loop"])) for n in (0, 1)),
    Case("while_of_7_iterations_over_rows", _over_rows, [(7, "N")], covers=("while",),
         expect=expect_graph(counts={"Scan": 1}, absent=["Loop"])),
]  # fmt: skip
