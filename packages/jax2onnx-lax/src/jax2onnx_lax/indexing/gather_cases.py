"""Cases of `gather`."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.ndimage import map_coordinates
from jax2onnx_core import Case, expect_graph

from jax2onnx_lax._case_helpers import ASSUME_FINITE, at_most

__all__ = ["cases"]

_ROWS = np.array([3, 0, -1, 3], np.int32)
_GRID = np.array([[3, 0], [-1, 2], [1, 1]], np.int64)
_WILD = np.array([3, -7, -6, 5, 6, 100], np.int32)


def _rows_in_another_order(x: jax.Array, i: jax.Array) -> jax.Array:
    numbers = lax.GatherDimensionNumbers(offset_dims=(2,), collapsed_slice_dims=(0,), start_index_map=(0,))
    return lax.gather(x, lax.reshape(i, (2, 2, 1), (1, 0)), numbers, (1, 3))


def _windows(x: jax.Array, starts: jax.Array, mode: str) -> jax.Array:
    numbers = lax.GatherDimensionNumbers(offset_dims=(1, 2), collapsed_slice_dims=(), start_index_map=(1, 0))
    return lax.gather(x, starts, numbers, (2, 3), mode=mode)


cases = [
    Case("rows", lambda x, i: x[i], [(6, 3), _ROWS], covers=("gather",), expect="Clip:4 -> Gather:4x3"),
    Case("rows_by_grid", lambda x, i: x[i], [(6, 3), _GRID], covers=("gather",), expect="Clip:3x2 -> Gather:3x2x3"),
    Case("rows_by_grid_in_another_order", _rows_in_another_order, [(6, 3), np.array([[0, 1], [2, 3]], np.int32)], covers=("gather",),
         expect="Transpose:2x2 -> Clip -> Gather:2x2x3"),
    Case("rows_by_one_index", lambda x, i: x[i], [(6, 3), np.array([[-2]], np.int32)], covers=("gather",),
         expect="Clip:1x1 -> Gather:1x1x3"),
    Case("rows_symbolic", lambda x, i: x[i], [("N", 3), np.array([0, -1], np.int32)], covers=("gather",),
         expect=expect_graph("Gather:2x3")),
    Case("embedding", lambda table, ids: jnp.take(table, ids, axis=0, mode="clip"), [(6, 3), _WILD],
         covers=("gather",), expect="Clip:6 -> Gather:6x3"),
    Case("ring_buffer", lambda x, i: x[i % 6], [(6, 3), _WILD], covers=("gather",),
         expect="Mod:6 -> Gather:6x3"),
    Case("columns", lambda x, i: x[:, i], [("B", 6, 2), _ROWS], covers=("gather",), expect="Clip:4 -> Gather:Bx4x2"),
    Case("take_fills", lambda x, i: jnp.take(x, i, axis=0), [(6, 3), _WILD], covers=("gather",),
         expect=expect_graph("Clip:6 -> Gather:6x3 -> Mul:6x3", "Clip:6 -> Equal:6 -> Unsqueeze -> Where -> Mul",
                             match="path")),
    Case("take_fills_symbolic", lambda x, i: jnp.take(x, i, axis=1), [("B", "N"), _WILD], covers=("gather",),
         expect=at_most(20, Gather=1)),
    Case("take_fills_integers", lambda x, i: jnp.take(x.astype(np.int32), i), [(6,), _WILD], covers=("gather",),
         expect=["Cast -> IsNaN -> Where -> Clip -> Cast -> Gather -> Where", "Clip -> Equal -> Where"]),
    Case("get_with_fill_value", lambda x, i: x.at[i].get(mode="fill", fill_value=7), [(6, 3), _WILD],
         covers=("gather",), expect=expect_graph("Gather:6x3 -> Where:6x3")),
    Case("take_known", lambda x: jnp.take(x, jnp.array([2, 0, -1]), axis=0), [(6, 3)], covers=("gather",),
         expect="Gather:3x3"),
    Case("points", lambda x, i, j: x[i, j], [(6, 5, 2), _ROWS, _ROWS], covers=("gather",),
         expect=expect_graph("GatherND:4x2", counts={"GatherND": 1, "Where": 0})),
    Case("points_behind", lambda x, i, j: x[:, i, j], [("B", 6, 5), _ROWS, _ROWS], covers=("gather",),
         expect=expect_graph(counts={"Gather": 1, "Transpose": 0})),
    Case("points_apart", lambda x, i, j: x[i, :, j], [(6, 3, 5), _ROWS, _ROWS], covers=("gather",),
         expect=at_most(20, Gather=1)),
    Case("arange_and_index", lambda x, i: x[jnp.arange(x.shape[0]), i], [("B", 6), np.array(2, np.int32)],
         covers=("gather",), expect=["Shape -> Squeeze -> Cast -> Range -> Gather", "Clip -> Gather -> Gather"]),
    Case("arange_and_rows", lambda x, i: jnp.tanh(x)[jnp.arange(x.shape[0]), i - 1], [("B", "T", 6), (("B",), np.int32)],
         covers=("gather",), expect=expect_graph(counts={"GatherND": 1, "Range": 0, "Concat": 0})),
    Case("arange_and_element", lambda x, i: x[jnp.arange(4), i], [(4, "T"), ((4,), np.int32)], covers=("gather",),
         expect=expect_graph("GatherElements:4x1", counts={"GatherND": 0})),
    Case("take_along_axis", lambda x, i: jnp.take_along_axis(x, i, 1, mode="promise_in_bounds"), [(3, 6), abs(_GRID)],
         covers=("gather",), expect=expect_graph("GatherElements:3x2")),
    Case("take_along_axis_fills", lambda x, i: jnp.take_along_axis(x, i, 1), [(3, 2), _GRID], covers=("gather",),
         expect=["Clip -> Equal -> Where -> Mul", "GatherElements -> Mul"]),
    Case("take_along_first_axis", lambda x, i: jnp.take_along_axis(x, i, 0, mode="clip"), [(6, 2), _GRID],
         covers=("gather",), expect="Clip:3x2 -> GatherElements:3x2"),
    Case("batched_rows", jax.vmap(lambda x, i: x[i]), [(3, 6, 2), _GRID], covers=("gather",),
         expect=expect_graph("GatherND:3x2x2", counts={"GatherND": 1, "Gather": 0, "Where": 0})),
    Case("batched_elements", jax.vmap(lambda x, i: x[i]), [(3, 6), _GRID], covers=("gather",),
         expect="Clip:3x2 -> GatherElements:3x2"),
    Case("batched_indices", jax.vmap(lambda x, i: x[i], in_axes=(None, 0)), [(6, 2), _GRID], covers=("gather",),
         expect="Clip:3x2 -> Gather:3x2x2"),
    Case("batched_twice", jax.vmap(jax.vmap(lambda x, i: x[i])), [(2, 3, 5), np.array([[0, 1, 2], [4, -1, 3]])],
         covers=("gather",), expect="Clip -> Unsqueeze -> GatherElements -> Squeeze"),
    Case("windows", lambda x, i: _windows(x, i, "clip"), [(5, 6), _GRID], covers=("gather",),
         expect=at_most(20, Gather=3)),
    Case("windows_filled", lambda x, i: _windows(x, i, "fill"), [(5, 6), _GRID], covers=("gather",),
         expect=at_most(20, Gather=3)),
    Case("complex", lambda x, i: jnp.take(lax.complex(x, -x), i, mode="clip").imag, [(6,), _WILD], covers=("gather",),
         expect=["Neg -> Gather", "Clip -> Gather"]),
    Case("keys", lambda i: jax.random.key_data(jax.random.split(jax.random.key(0), 4)[i]), [np.array([1, 3], np.int32)],
         covers=("gather",), expect=["Clip -> Gather -> Unsqueeze -> Concat", "Gather -> Unsqueeze -> Concat"]),
    Case("grad_of_rows", jax.grad(lambda x, i: (x[i] ** 2).sum()), [(6, 3), _ROWS], covers=("scatter-add",),
         expect=at_most(10, Gather=1, ScatterElements=1)),
    Case("jvp_of_take", lambda x, i: jax.jvp(lambda x: jnp.take(x, i, axis=0), (x,), (2 * x,)), [(6, 3), _ROWS],
         covers=("gather",), expect=["Clip -> Gather -> Mul -> Where", "Equal -> Unsqueeze -> Where -> Mul"]),
    Case("elements_out_of_range", lambda x, i, j: jnp.where(i < 6, x[i, j], 7), [(6, 3), _WILD, _WILD[::-1].copy()],
         covers=("gather",), expect=at_most(10, GatherND=1)),
    Case("interpolated_out_of_range",
         lambda x, i: map_coordinates(x, [i, 3 * i], order=1, mode="constant", cval=3.0), [(6, 3), (9,)],
         covers=("gather",), expect=at_most(80, GatherND=4)),
    Case("rows_that_are_there", lambda x, i: jnp.take(x, i, axis=0), [(6, 3), _ROWS], covers=("gather",),
         expect=expect_graph(absent=["Where", "Mul"]), options=ASSUME_FINITE),
    Case("elements_out_of_range_not_taken", lambda x, i, j: jnp.where(i < 6, x[i, j], 7), [(6, 3), _WILD, np.array([0, 1, 2, 0, 1, 2])],
         covers=("gather",), options=ASSUME_FINITE, expect=at_most(10, GatherND=1)),
    Case("zeros_keep_their_signs", lambda x, i: 1 / jnp.take(x, i, axis=0), [np.array([-0.0, 0.0], np.float32), _WILD],
         covers=("gather",), expect=["Clip -> Equal -> Where -> Mul -> Reciprocal", "Gather -> Mul"]),
]  # fmt: skip
