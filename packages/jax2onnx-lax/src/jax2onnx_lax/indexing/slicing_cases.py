"""Cases of `slicing`."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax2onnx_core import Case, expect_graph
from jax2onnx_graph.build.builder import Array

from jax2onnx_lax._case_helpers import at_most

__all__ = ["cases"]


def _at(*numbers: int) -> list[Array]:
    return [np.asarray(number, np.int32) for number in numbers]


def _cache(cache: jax.Array, new: jax.Array, position: jax.Array) -> jax.Array:
    return lax.dynamic_update_slice_in_dim(cache, new, position, 1)


def _rows(x: jax.Array, u: jax.Array, i: jax.Array) -> jax.Array:
    return lax.dynamic_update_slice_in_dim(x, u, i, 0)


cases = [
    Case("slice", lambda x: x[1:3, ::2], [(4, 5)], covers=("slice",), expect="Slice:2x3"),
    Case("slice_whole", lambda x: lax.slice(x, (0, 0), (4, 5)) + 1, [(4, 5)], covers=("slice",), expect="Add:4x5"),
    Case("slice_symbolic_batch", lambda x: x[:, 1:3], [("B", 5)], covers=("slice",), expect="Slice:Bx2"),
    Case("slice_from_end", lambda x: x[1:-1, -3:], [("B", "N")], covers=("slice", "gather"), expect="Slice"),
    Case("slice_to_expression", lambda x: x[: x.shape[0] // 2], [("B", 3)], covers=("slice", "gather"),
         expect="Shape -> Div -> Slice"),
    Case("slice_from_expression", lambda x: x[x.shape[0] // 2 :], [("B", 3)], covers=("slice", "gather"),
         expect="Shape -> Div -> Slice"),
    Case("slice_stride_symbolic", lambda x: x[::2], [("B", 3)], covers=("slice", "gather"), expect="Slice"),
    Case("slice_reversed", lambda x: x[::-1], [("B", 3)], covers=("slice", "gather"), expect="Slice:Bx3"),
    Case("slice_last", lambda x: x[:, -1], [("B", "N")], covers=("slice", "gather"), expect="Gather:B"),
    Case("slice_first", lambda x: x[0], [("B", "N")], covers=("slice", "gather"), expect="Gather:N"),
    Case("roll", lambda x: jnp.roll(x, 1, axis=1), [("B", "N")], covers=("slice",),
         expect=["Shape -> Mod -> Slice -> Concat", "Slice -> Concat"]),
    Case("slice_complex", lambda x: lax.complex(x, -x)[1:].imag, [("B", 2)], covers=("slice",), expect="Neg -> Slice"),
    Case("index_scalar", lambda x, i: x[i], [(7, 3), *_at(-2)], covers=("dynamic_slice",),
         expect="Clip:() -> Gather:3"),
    Case("index_two_scalars", lambda x, i, j: x[i, j], [(7, 3), *_at(-2, 9)], covers=("dynamic_slice",),
         expect=["Clip:() -> Gather:7 -> Gather:()", "Clip:() -> Gather:()"]),
    Case("index_scalar_symbolic", lambda x, i: x[i], [("B", 3), *_at(-1)], covers=("dynamic_slice",),
         expect=["Shape -> Neg -> Squeeze -> Clip -> Gather", "Sub -> Squeeze -> Clip", "Cast -> Clip"]),
    Case("dynamic_slice", lambda x, i: lax.dynamic_slice_in_dim(x, i, 3), [(7, 4), *_at(6)],
         covers=("dynamic_slice",), expect=expect_graph("Clip -> Unsqueeze -> Cast -> Add -> Slice:3x4")),
    Case("dynamic_slice_two_axes", lambda x, i, j: lax.dynamic_slice(x, (i, j), (3, 2)), [(7, 4), *_at(-9, 1)],
         covers=("dynamic_slice",), expect=expect_graph(counts={"Slice": 1})),
    Case("dynamic_slice_at_number", lambda x: lax.dynamic_slice(x, (9, 1), (3, 2)), [(7, 4)],
         covers=("dynamic_slice",), expect="Slice:3x2"),
    Case("dynamic_slice_symbolic", lambda x, i: lax.dynamic_slice_in_dim(x, i, 2, 1), [("B", 5), *_at(2)],
         covers=("dynamic_slice",),
         expect=["Less -> Where -> Clip -> Unsqueeze -> Cast -> Add -> Slice", "Add -> Where"]),
    Case("dynamic_slice_of_symbolic_size", lambda x, i: lax.dynamic_slice_in_dim(x, i, x.shape[0] - 1),
         [("B", 5), *_at(7)], covers=("dynamic_slice",), options={"constraints": ("B >= 2",)}, expect=at_most(20)),
    Case("dynamic_slice_vmapped", jax.vmap(lambda x, i: lax.dynamic_slice(x, (i,), (3,))),
         [(4, 6), np.array([0, 2, -1, 9], np.int32)], covers=("gather",),
         expect=expect_graph(counts={"GatherElements": 1})),
    Case("dynamic_slice_grad", jax.grad(lambda x, i: (lax.dynamic_slice_in_dim(x, i, 2) ** 2).sum()),
         [(5, 3), *_at(2)], covers=("dynamic_update_slice",), expect=at_most(20, ScatterElements=1)),
    Case("update_row", _rows, [(7, 3), (1, 3), *_at(-3)],
         covers=("dynamic_update_slice",), expect="Clip -> Unsqueeze -> Expand:1x3 -> ScatterElements:7x3"),
    Case("update_rows", _rows, [(7, 3), (2, 3), *_at(9)],
         covers=("dynamic_update_slice",),
         expect=["Less -> Where -> Clip -> Add -> Unsqueeze -> Expand -> ScatterElements", "Add -> Where"]),
    Case("update_cache", _cache, [("B", 8, 4), ("B", 1, 4), *_at(3)], covers=("dynamic_update_slice",),
         expect=expect_graph("Expand -> ScatterElements:Bx8x4")),
    Case("update_cache_opset_24", _cache, [("B", 8, 4), ("B", 1, 4), *_at(3)], covers=("dynamic_update_slice",),
         expect=expect_graph("Expand:B -> TensorScatter:Bx8x4"), options={"opset": 24}),
    Case("update_at_number", lambda x, u: lax.dynamic_update_slice(x, u, (2, 0)), [(7, 3), (2, 3)],
         covers=("dynamic_update_slice",),
         expect=["Slice:2x3 -> Concat:7x3", "Slice:3x3 -> Concat:7x3"]),
    Case("update_beginning", lambda x, u: lax.dynamic_update_slice(x, u, (0, 0)), [(7, 3), (2, 3)],
         covers=("dynamic_update_slice",), expect="Slice:5x3 -> Concat:7x3"),
    Case("update_whole", lambda x, u: lax.dynamic_update_slice(x, u, (4, 4)) + 1, [(2, 3), (2, 3)],
         covers=("dynamic_update_slice",), expect="Add:2x3"),
    Case("update_block", lambda x, u, i, j: lax.dynamic_update_slice(x, u, (i, j, np.int32(0))), [(5, 4, 3), (2, 2, 3), *_at(1, 7)],
         covers=("dynamic_update_slice",), expect=expect_graph(counts={"ScatterElements": 1})),
    Case("update_nothing", lambda x, u: lax.dynamic_update_slice(x, u, (1, 0)) + 1, [(2, 3), (0, 3)],
         covers=("dynamic_update_slice",), expect="Add:2x3"),
]  # fmt: skip
