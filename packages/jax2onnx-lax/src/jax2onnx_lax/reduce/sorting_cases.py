"""Cases of `sorting`."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax2onnx_core import Case, expect_graph

from jax2onnx_lax._case_helpers import ASSUME_FINITE, at_most

__all__ = ["cases"]


def _arg_sort(x: jax.Array) -> Sequence[jax.Array]:
    return lax.sort((x, lax.broadcasted_iota(np.int32, x.shape, 1)), num_keys=1)


def _two_keys(x: jax.Array, y: jax.Array) -> Sequence[jax.Array]:
    return lax.sort((y, x, lax.broadcasted_iota(np.int32, x.shape, 0)), dimension=0, num_keys=2)


_few = np.array([3, 1, np.nan, 3, -0.0, 0.0, np.inf, np.nan, -np.inf, 1, 0.0], np.float32)
_extremes = np.array([5, -(2**63), 2**63 - 1, 0, -1, 2**63 - 2], np.int64)
_topped = "TopK"
_approximate = "TopK -> Cast"

cases = [
    Case("sort", lambda x: lax.sort(x, dimension=1), [("B", "N")], ("sort",), values="special",
         expect=["Shape", "TopK"]),
    Case("sort_first_axis", lambda x: lax.sort(x, dimension=0), [("N", 3)], ("sort",), values="special",
         expect=["Shape", "TopK"]),
    Case("sort_int32", lambda x: lax.sort(x, dimension=1), [((3, 9), np.int32)], ("sort",), _topped),
    Case("sort_int64_extremes", lambda x: lax.sort(x), [_extremes], ("sort",), expect="TopK"),
    Case("sort_uint64", lambda x: lax.sort(x), [((9,), np.uint64)], ("sort",), expect="Cast -> TopK -> Cast"),
    Case("sort_bool", lambda x: lax.sort(x), [((9,), np.bool_)], ("sort",), expect="Cast -> TopK -> Cast"),
    Case("sort_bfloat16", lambda x: lax.sort(x), [((9,), jnp.bfloat16)], ("sort",),
         expect="Cast -> TopK -> Cast"),
    Case("sort_complex", lambda x: lax.sort(x), [((9,), np.complex64)], ("sort",), expect=at_most(20, If=0)),
    Case("sort_stays_stable", lambda x: _arg_sort(x[None]), [_few], ("sort",),
         doc="Equal numbers, zeros of both signs and NaN keep their order.",
         expect=["Unsqueeze -> TopK -> GatherElements", "GatherElements"]),
    Case("argsort", _arg_sort, [("B", "N")], ("sort",), values="special", expect=at_most(20, If=0)),
    Case("sort_by_two_keys", _two_keys, [np.array([2, 1, 2, 1, np.nan, 0], np.float32), np.array([1, 1, 0, 1, 0, np.nan], np.float32)],
         ("sort",), expect=at_most(10, If=0)),
    Case("sort_one", lambda x: lax.sort(x), [(1,)], ("sort",), expect="Identity"),
    Case("sort_empty", lambda x: lax.sort(x), [(0,)], ("sort",), expect="Identity"),
    Case("sort_gradient", jax.grad(lambda x: (lax.sort(x) * jnp.arange(7, dtype=x.dtype)).sum()), [(7,)], ("sort",),
         expect="TopK -> GatherElements -> Unsqueeze -> Cast -> Squeeze -> ScatterElements"),
    Case("top_k", lambda x: lax.top_k(x, 3), [("B", "N + 2")], ("top_k",), expect=at_most(20, If=1)),
    Case("top_k_nan", lambda x: lax.top_k(x, 5), [np.array([1, np.inf, np.nan, 3, -np.inf, np.nan], np.float32)], ("top_k",),
         expect=["TopK -> Reciprocal -> ReduceMin -> Equal -> Or -> If -> Cast", "ReduceL1 -> IsNaN -> Or"]),
    Case("top_k_of_negation", lambda x: lax.top_k(-x, 3), [("B", "N + 2")], ("top_k",), values="special",
         expect=at_most(20, If=1)),
    Case("top_k_of_integers_as_floats", lambda x: lax.top_k((x > 0).astype(x.dtype), 2), [("B", 5)], ("top_k",),
         expect_graph(counts={"ReduceL1": 0})),
    Case("partition", lambda x: jnp.partition(x, 2), [np.array([0, np.nan, 6, np.nan, 4], np.float32)], ("top_k",),
         expect=at_most(30, If=2)),
    Case("sort_of_booleans_as_floats", lambda x: lax.sort((x > 0).astype(x.dtype)), [("B", 5)], ("sort",),
         "Greater -> Cast -> TopK"),
    Case("top_k_of_long", lambda x: lax.top_k(x, 6), [("B", 8192)], ("top_k",), expect=at_most(30, If=1)),
    Case("top_k_of_long_ties", lambda x: lax.top_k(jnp.round(x), 30), [("B", 12288)], ("top_k",), values="special",
         expect=at_most(30, If=1)),
    Case("top_k_of_long_vector", lambda x: lax.top_k(jnp.round(4 * x), 2), [(8208,)], ("top_k",), values="finite",
         expect=at_most(30, If=1)),
    Case("top_k_of_softmax", lambda x: lax.top_k(jax.nn.softmax(x), 3), [("B", 9)], ("top_k",), "Softmax -> TopK -> Cast", values="special"),
    Case("top_k_int32", lambda x: lax.top_k(x, 3), [((3, 9), np.int32)], ("top_k",), "TopK -> Cast"),
    Case("top_k_uint64", lambda x: lax.top_k(x, 3), [((3, 9), np.uint64)], ("top_k",),
         expect=["Cast -> TopK -> Cast", "Cast"]),
    Case("top_k_bool", lambda x: lax.top_k(x, 3), [((3, 9), np.bool_)], ("top_k",),
         expect=["Cast -> TopK -> Cast", "Cast"]),
    Case("approx_max_k", lambda x: lax.approx_max_k(x, 3), [(2, 50)], ("approx_top_k",), _approximate),
    Case("approx_min_k", lambda x: lax.approx_min_k(x, 3, reduction_dimension=0), [(50, 2)], ("approx_top_k",),
         expect=_approximate),
    Case("approx_not_aggregated", lambda x: lax.approx_max_k(x, 3, recall_target=0.5, aggregate_to_topk=False), [(5000,)],
         ("approx_top_k",), expect=_approximate),
    Case("sort_of_finite", lambda x: lax.sort(x, dimension=1), [("B", "N")], ("sort",), expect_graph(counts={"TopK": 1, "If": 0}), options=ASSUME_FINITE),
    Case("argsort_of_finite", _arg_sort, [("B", "N")], ("sort",), expect_graph(counts={"TopK": 1, "If": 0}), options=ASSUME_FINITE),
    Case("top_k_of_finite", lambda x: lax.top_k(x, 3), [("B", "N + 2")], ("top_k",), expect_graph("TopK -> Cast", counts={"If": 0}), options=ASSUME_FINITE),
    Case("approx_max_k_of_finite", lambda x: lax.approx_max_k(x, 3), [(2, 50)], ("approx_top_k",), "TopK -> Cast",
         options=ASSUME_FINITE),
]  # fmt: skip
