"""Cases of `scatter`."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax2onnx_core import Case, expect_graph
from jax2onnx_graph.build.builder import Array

from jax2onnx_lax._case_helpers import ASSUME_FINITE, at_most

__all__ = ["cases"]

_TWICE = np.array([3, 0, -1, 3], np.int32)
_WILD = np.array([3, -7, 3, 6], np.int32)
_GRID = np.array([[3, 0], [-1, 2], [9, 1]], np.int32)


def _at(number: int) -> Array:
    return np.asarray(number, np.int32)


def _narrow(x: jax.Array) -> jax.Array:
    """Cast to a type that has no infinity."""
    return x.astype(jnp.float8_e4m3fn)


cases = [
    Case("set_row_at_number", lambda x, u: x.at[2].set(u), [(6, 3), (3,)], covers=("scatter",),
         expect="ScatterND:6x3"),
    Case("set_rows_at_numbers", lambda x, u: x.at[1:3].set(u), [(6, 3), (2, 3)], covers=("scatter",),
         expect="ScatterND:6x3"),
    Case("set_columns_at_numbers", lambda x, u: x.at[:, 1:3].set(u), [("B", 6), ("B", 2)], covers=("scatter",),
         expect=expect_graph(absent=["ScatterElements"], counts={"Slice": 2, "Concat": 1})),
    Case("set_one_of_many_columns", lambda x, u: x.at[:, 1].set(u), [("B", 20), ("B",)], covers=("scatter",),
         expect=at_most(8, ScatterElements=1)),
    Case("add_inside", lambda x, u: x.at[:, 1:-1, 1:-1].add(u), [("B", 5, 6), (3, 4)], covers=("scatter-add",),
         expect=expect_graph(absent=["ScatterElements"], counts={"Concat": 2})),
    Case("multiply_inside", lambda x: x.at[1:-1, 2:].mul(3), [(5, 6)], covers=("scatter-mul",), values="special",
         expect=expect_graph(absent=["ScatterElements"], counts={"Concat": 2})),
    Case("set_row", lambda x, i, u: x.at[i].set(u), [(6, 3), _at(-2), (3,)], covers=("scatter",),
         expect=expect_graph(counts={"ScatterND": 1, "Concat": 0})),
    Case("set_row_out_of_range", lambda x, i, u: x.at[i].set(u), [(6, 3), _at(6), (3,)], covers=("scatter",),
         expect=["Clip -> Equal -> Where -> ScatterND", "Unsqueeze -> Cast -> GatherND -> Where"]),
    Case("set_column", lambda x, i, u: x.at[:, i].set(u), [("B", 3), _at(1), ("B",)], covers=("scatter",),
         expect=at_most(20, GatherElements=1, ScatterElements=1)),
    Case("set_unique", lambda x, i, u: x.at[i].set(u, mode="promise_in_bounds", unique_indices=True),
         [(6, 3), np.array([4, -2], np.int32), (2, 3)], covers=("scatter",), expect="Unsqueeze -> Cast -> ScatterND:6x3"),
    Case("set_repeated", lambda x, i, u: x.at[i].set(u, mode="promise_in_bounds"), [(6, 3), _TWICE, (4, 3)],
         covers=("scatter",), expect=expect_graph("Expand:4x3 -> ScatterElements:6x3", absent=["Where", "Clip"])),
    Case("set_clipped", lambda x, i, u: x.at[i].set(u, mode="clip"), [(6, 3), _WILD, (4, 3)], covers=("scatter",),
         expect=expect_graph("Clip:4 -> ? -> Expand:4x3 -> ScatterElements:6x3", absent=["Where"])),
    Case("set_dropped", lambda x, i, u: x.at[i].set(u), [(6, 3), _WILD, (4, 3)], covers=("scatter",),
         expect=expect_graph("Concat:7x3 -> ScatterElements:7x3 -> Slice:6x3")),
    Case("set_symbolic", lambda x, i, u: x.at[i].set(u), [("N", 3), np.array([0, 9, 0], np.int32), (3, 3)],
         covers=("scatter",), expect=at_most(20, ScatterElements=1)),
    Case("set_points", lambda x, i, j, u: x.at[i, j].set(u), [(6, 5), _WILD, _TWICE, (4,)], covers=("scatter",),
         expect=at_most(30, ScatterElements=1)),
    Case("set_diagonal", lambda x, u: x.at[jnp.arange(4), jnp.arange(4)].set(u), [(4, 4), (4,)], covers=("scatter",),
         expect="ScatterND:4x4"),
    Case("set_batched", jax.vmap(lambda x, i, u: x.at[i].set(u)), [(3, 4), np.array([0, 9, -1], np.int32), (3,)],
         covers=("scatter",), expect=expect_graph(counts={"ScatterElements": 1, "Concat": 0})),
    Case("set_complex", lambda x, i: lax.complex(x, -x).at[i].set(2j).imag, [(6,), _WILD], covers=("scatter",),
         expect=at_most(10, ScatterElements=1)),
    Case("apply", lambda x, i: x.at[i].apply(lambda v: 2 * v + 1), [(6, 3), _WILD], covers=("scatter",),
         expect=["Less -> Where -> Unsqueeze -> Scan", "Add -> Where"]),
    Case("apply_nothing", lambda x, i: x.at[i[1:]].apply(jnp.tanh), [(6, 3), (("K",), "int32")], covers=("scatter",),
         expect=["Shape -> Sub -> Squeeze -> Loop", "Slice -> Less -> Where -> Unsqueeze", "Add -> Where"]),
    Case("apply_to_nothing", lambda x, i: x[1:].at[i].apply(jnp.tanh), [("N", "C"), (("K",), "int32")], covers=("scatter",),
         expect=at_most(30, Scan=1)),
    Case("apply_once", lambda x: x.at[2].apply(jnp.exp), [(6, 3)], covers=("scatter",), expect=expect_graph(absent=["Loop"]),
         declines="each element is computed by a function of its own"),
    Case("add", lambda x, i, u: x.at[i].add(u, mode="promise_in_bounds"), [(6, 3), _TWICE, (4, 3)],
         covers=("scatter-add",), expect=expect_graph("Where:4x3 -> ScatterElements:6x3", absent=["Concat"])),
    Case("add_dropped", lambda x, i, u: x.at[i].add(u), [(6, 3), _WILD, (4, 3)], covers=("scatter-add",),
         expect=expect_graph("Where:4x3 -> ScatterElements:6x3", absent=["Concat"])),
    Case("add_symbolic", lambda x, i, u: x.at[i].add(u), [("N", 3), np.array([0, 9, 0], np.int32), (3, 3)],
         covers=("scatter-add",), expect=at_most(20, ScatterElements=1)),
    Case("add_columns", lambda x, i, u: x.at[:, i].add(u), [("B", 6), _TWICE, ("B", 4)], covers=("scatter-add",),
         expect=["Shape -> Concat -> Expand -> ScatterElements", "Clip -> Equal -> Where -> ScatterElements"]),
    Case("add_elements", lambda x, i, u: x.at[i].add(u, mode="promise_in_bounds"), [(6,), _TWICE, (4,)],
         covers=("scatter-add",), expect=expect_graph("Where:4 -> ScatterElements:6", absent=["Concat"])),
    Case("add_batched", jax.vmap(lambda x, i, u: x.at[i].add(u)), [(3, 4), _GRID, (3, 2)], covers=("scatter-add",),
         expect=expect_graph(counts={"ScatterElements": 1, "Reshape": 0})),
    Case("add_batched_rows", jax.vmap(lambda x, i, u: x.at[i].add(u)), [(3, 4, 2), _GRID, (3, 2, 2)],
         covers=("scatter-add",), expect=at_most(20, ScatterElements=1)),
    Case("segment_sum", lambda x: jax.ops.segment_sum(x, jnp.array([0, 2, 0, 1]), 3), [(4, 5)], covers=("scatter-add",),
         expect=expect_graph(counts={"ScatterElements": 1})),
    Case("bincount", lambda i: jnp.bincount(i, length=5), [np.array([0, 4, 4, 2], np.int32)], covers=("scatter-add",),
         expect="Max -> Clip -> Equal -> Where -> ScatterElements"),
    Case("put_along_axis", lambda x, i, u: jnp.put_along_axis(x, i, u, 1, inplace=False),
         [(3, 6), np.array([[0, 1], [2, 2], [5, 4]]), (3, 2)], covers=("scatter",),
         expect=at_most(20, ScatterElements=1)),
    Case("subtract", lambda x, i, u: x.at[i].subtract(u), [(6, 3), _WILD, (4, 3)], covers=("scatter-sub",),
         expect=at_most(10, ScatterElements=1)),
    Case("multiply", lambda x, i, u: x.at[i].mul(u), [(6, 3), _WILD, (4, 3)], covers=("scatter-mul",),
         expect=["Clip -> Equal -> Unsqueeze -> Where -> ScatterElements", "Reshape -> Expand -> ScatterElements"]),
    Case("maximum", lambda x, i, u: x.at[i].max(u), [(6, 3), _WILD, (4, 3)], covers=("scatter-max",), values="special",
         expect=at_most(20, ScatterElements=2)),
    Case("minimum", lambda x, i, u: x.at[i].min(u), [(6, 3), _WILD, (4, 3)], covers=("scatter-min",), values="special",
         expect=at_most(20, ScatterElements=2)),
    Case("maximum_without_infinity", lambda x, i, u: _narrow(x).at[i].max(_narrow(u)).astype(x.dtype), [(6, 3), _WILD, (4, 3)],
         covers=("scatter-max",), expect=at_most(40, ScatterElements=2)),
    Case("minimum_without_infinity", lambda x, i, u: _narrow(x).at[i].min(_narrow(u)).astype(x.dtype), [(6, 3), _WILD, (4, 3)],
         covers=("scatter-min",), expect=at_most(40, ScatterElements=2)),
    Case("maximum_of_integers", lambda x, i: x.astype(np.int32).at[i].max(1, mode="clip"), [(6,), _WILD],
         covers=("scatter-max",),
         expect=["Cast -> IsNaN -> Where -> Clip -> Cast -> ScatterElements", "Clip -> ScatterElements"]),
    Case("grad_of_set", jax.grad(lambda x, i, u: (x.at[i].set(u) ** 2).sum(), (0, 2)), [(6, 3), np.array([4, 1]), (2, 3)],
         covers=("scatter",), expect=at_most(30, Gather=2, ScatterElements=2)),
    Case("grad_of_symbolic_slice", jax.grad(lambda x: (x[1:-1, -3:] ** 2).sum()), [("B", "N")], covers=("scatter-add",),
         expect=expect_graph("Pad:BxN", absent=["ScatterElements", "ScatterND"])),
    Case("grad_of_stride", jax.grad(lambda x: (x[::2] ** 2).sum()), [("B", 3)], covers=("scatter-add",),
         expect=at_most(20, ScatterND=1)),
    Case("grad_of_last", jax.grad(lambda x: (x[:, -1] ** 2).sum()), [("B", "N")], covers=("scatter-add",),
         expect=["Shape -> Sub -> Concat -> Pad", "Gather -> Mul -> Unsqueeze -> Pad"]),
    Case("set_in_zeros", lambda u: jnp.zeros((6, 3), u.dtype).at[2:4].set(u), [(2, 3)], covers=("scatter",),
         expect="Pad:6x3"),
    Case("nonzero_of_constants", lambda x: x[jnp.tril_indices(3)], [(3, 3)], covers=("scatter-add",),
         expect="GatherND:6"),
    Case("add_where_there_may_be_nothing", lambda x, i, u: x.at[i].add(u), [("B - 1", 3), _WILD, (4, 3)],
         covers=("scatter-add",), expect=at_most(30, ScatterElements=1)),
    Case("add_elements_where_there_may_be_nothing", lambda x, i: x.at[i, i].add(1), [("B - 1", "B - 1"), _WILD],
         covers=("scatter-add",), expect=at_most(50, ScatterElements=1)),
    Case("insert_where_there_may_be_nothing", lambda x: jnp.insert(x, 1, 2), [("B - 1",)], covers=("scatter",),
         expect=at_most(110, ScatterElements=3, CumSum=2, ScatterND=2)),
    Case("grad_of_multiply", jax.grad(lambda x, i: (x.at[i].mul(3.0, unique_indices=True) ** 2).sum()),
         [(6, 3), np.array([4, 1])], covers=("scatter-mul",), expect=at_most(10, ScatterElements=2)),
    Case("max_of_finite", lambda x, i, u: x.at[i].max(u), [(6, 3), _WILD, (4, 3)], covers=("scatter-max",),
         expect=expect_graph(counts={"IsNaN": 0, "ScatterElements": 1}), options=ASSUME_FINITE),
]  # fmt: skip
