"""Cases of `reductions`."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax2onnx_core import Case, expect_graph

from jax2onnx_lax._case_helpers import ASSUME_FINITE, at_most

__all__ = ["cases"]

Pair = tuple[jax.Array, jax.Array]


def _first_of_equals(x: jax.Array) -> Pair:
    """The greatest element and its place: a reduction of two operands that is not commutative."""
    place = lax.broadcasted_iota(np.int32, x.shape, 1)

    def later(left: Pair, right: Pair) -> Pair:
        keep = left[0] >= right[0]
        return jnp.where(keep, left[0], right[0]), jnp.where(keep, left[1], right[1])

    return lax.reduce((x, place), (np.asarray(-np.inf, x.dtype), np.int32(-1)), later, (1,))


_ints = ("B", 7)
_maximum = ["ReduceMax -> Where", "Abs -> ReduceSum -> IsNaN -> Where"]

cases = [
    Case("sum", lambda x: lax.reduce_sum(x, (1,)), [("B", 5, 3)], ("reduce_sum",), "ReduceSum:Bx3"),
    Case("sum_over_everything", lambda x: lax.reduce_sum(x, (0, 1)), [("B", 5)], ("reduce_sum",), "ReduceSum"),
    Case("sum_over_nothing", lambda x: lax.reduce_sum(x, ()), [("B", 5)], ("reduce_sum",), expect="Identity"),
    Case("sum_of_empty", lambda x: lax.reduce_sum(x, (1,)), [(3, 0)], ("reduce_sum",), expect="ReduceSum"),
    Case("sum_wraps_around", lambda x: lax.reduce_sum(x, (0,)), [np.full((5, 2), 2**30, np.int32)], ("reduce_sum",),
         expect="MatMul", declines="does not wrap around on"),
    Case("sum_int64", lambda x: lax.reduce_sum(x, (0, 2)), [((3, 4, 5), np.int64)], ("reduce_sum",),
         expect="Transpose -> Reshape -> MatMul -> Reshape"),
    Case("sum_symbolic_int32", lambda x: lax.reduce_sum(x, (1,)), [(_ints, np.int32)], ("reduce_sum",),
         expect="MatMul -> Squeeze"),
    Case("sum_uint8", lambda x: lax.reduce_sum(x, (1,)), [((3, 9), np.uint8)], ("reduce_sum",),
         expect="Transpose -> MatMulInteger -> Cast"),
    Case("count", lambda x: (x > 0).sum(-1), [("B", 5)], ("reduce_sum",), expect="Greater -> Cast -> MatMul -> Squeeze"),
    Case("sum_complex", lambda x: lax.reduce_sum(x, (1,)), [((3, 4), np.complex64)], ("reduce_sum",),
         expect=["Gather -> ReduceSum -> Concat", "Gather -> ReduceSum -> Concat"]),
    Case("product", lambda x: lax.reduce_prod(x, (1,)), [("B", 5)], ("reduce_prod",), "ReduceProd"),
    Case("product_int32", lambda x: lax.reduce_prod(x, (0, 1)), [((5, 3), np.int32)], ("reduce_prod",),
         expect=at_most(20)),
    Case("product_symbolic_int32", lambda x: lax.reduce_prod(x, (0,)), [(_ints, np.int32)], ("reduce_prod",),
         expect="Scan"),
    Case("product_complex", lambda x: lax.reduce_prod(x, (1,)), [((3, 4), np.complex64)], ("reduce_prod",),
         expect=at_most(30, Gather=2)),
    Case("max", lambda x: lax.reduce_max(x, (1,)), [("B", 5)], ("reduce_max",), _maximum, values="special"),
    Case("max_int32", lambda x: lax.reduce_max(x, (1,)), [(_ints, np.int32)], ("reduce_max",), "ReduceMax"),
    Case("max_uint64", lambda x: lax.reduce_max(x, (1,)), [(_ints, np.uint64)], ("reduce_max",),
         expect="Cast -> ReduceMax -> Cast"),
    Case("max_bool", lambda x: lax.reduce_max(x, (1,)), [(_ints, np.bool_)], ("reduce_max",),
         expect="Cast -> ReduceMax -> Cast"),
    Case("max_of_empty", lambda x: lax.reduce_max(x, (1,)), [(3, 0)], ("reduce_max",), expect="Expand"),
    Case("max_complex", lambda x: lax.reduce_max(x, (1,)), [((3, 4), np.complex64)], ("reduce_max",),
         expect=at_most(40, Gather=2)),
    Case("max_gradient", jax.grad(lambda x: jnp.max(x, -1).sum()), [(3, 5)], ("reduce_max",),
         expect=at_most(20, ReduceMax=1, ReduceSum=2)),
    Case("min", lambda x: lax.reduce_min(x, (0, 2)), [("B", 5, 3)], ("reduce_min",), values="special",
         expect=["ReduceMin -> Where", "Abs -> ReduceSum -> IsNaN -> Where"]),
    Case("min_uint64", lambda x: lax.reduce_min(x, (1,)), [(_ints, np.uint64)], ("reduce_min",),
         expect="Cast -> ReduceMin -> Cast"),
    Case("min_complex", lambda x: lax.reduce_min(x, (1,)), [((3, 4), np.complex64)], ("reduce_min",),
         expect=at_most(40, Gather=2)),
    Case("any", lambda x: jnp.any(x > 0, 1), [("B", 5)], ("reduce_or",), "Greater -> Cast -> ReduceMax -> Cast"),
    Case("any_of_empty", lambda x: jnp.any(x > 0, 1), [(3, 0)], ("reduce_or",), expect="Identity"),
    Case("or_of_bits", lambda x: lax.reduce_or(x, (1,)), [((4, 7), np.int32)], ("reduce_or",), expect=at_most(20)),
    Case("all", lambda x: jnp.all(x > 0), [("B", 5)], ("reduce_and",), "Greater -> Cast -> ReduceMin -> Cast"),
    Case("and_of_bits", lambda x: lax.reduce_and(x, (0,)), [((4, 7), np.uint8)], ("reduce_and",),
         expect=["Slice -> BitwiseAnd -> Slice -> BitwiseAnd -> Squeeze", "Slice -> BitwiseAnd", "Slice -> BitwiseAnd"],
         declines="bits are combined pair by pair"),
    Case("xor", lambda x: lax.reduce_xor(x > 0, (1,)), [("B", 5)], ("reduce_xor",),
         expect="Greater -> Cast -> MatMul -> Squeeze -> Mod -> Equal"),
    Case("xor_of_bits", lambda x: lax.reduce_xor(x, (1,)), [((4, 7), np.int64)], ("reduce_xor",), expect=at_most(20)),
    Case("reduce_by_add", lambda x: lax.reduce(x, np.asarray(0, x.dtype), lax.add, (1,)), [("B", 5)], ("reduce",),
         "ReduceSum"),
    Case("reduce_from_elsewhere", lambda x: lax.reduce(x, np.asarray(3, x.dtype), lax.add, (1,)), [("B", 5)], ("reduce",),
         expect="ReduceSum -> Add", declines="not a known operation that starts from its identity"),
    Case("reduce_two_operands", _first_of_equals, [np.array([[1, 3, 3, 0, 3], [2, 1, 2, 2, 0]], np.float32)], ("reduce",),
         expect=at_most(40)),
    Case("reduce_symbolic", _first_of_equals, [("B", "N")], ("reduce",), expect=at_most(20, Scan=1)),
    Case("reduce_over_no_axes", lambda x: -lax.reduce(x, np.asarray(3, x.dtype), lax.max, ()), [("B", 5)], ("reduce",),
         expect="Neg"),
    Case("reduce_several_over_no_axes",
         lambda x: -lax.reduce((x, x), (np.asarray(3, x.dtype),) * 2, lambda a, b: (a[0] + b[0], a[1] * b[1]), ())[1],
         [("B", 5)], ("reduce",), expect="Neg"),
    Case("reduce_complex", lambda x: lax.reduce(x, np.complex64(1), lax.mul, (1,)), [((3, 4), np.complex64)], ("reduce",),
         expect=at_most(30, Gather=2)),
    Case("argmax", lambda x: lax.argmax(x, 1, np.int32), [("B", "N")], ("argmax",),
         "ReduceL1 -> IsNaN -> If:B -> Cast:B", values="special"),
    Case("argmax_of_booleans_as_floats", lambda x: lax.argmax((x > 0).astype(x.dtype), 1, np.int32), [("B", "N")], ("argmax",),
         "Greater -> Cast -> ArgMax:B -> Cast:B"),
    Case("argmax_int32", lambda x: lax.argmax(x, 0, np.int32), [((5, 3), np.int32)], ("argmax",),
         "ArgMax -> Cast"),
    Case("argmax_uint64", lambda x: lax.argmax(x, 0, np.uint8), [((5, 3), np.uint64)], ("argmax",),
         expect="Cast -> ArgMax -> Cast"),
    Case("argmax_bool", lambda x: lax.argmax(x > 0, 1, np.int32), [("B", 5)], ("argmax",),
         expect="Greater -> Cast -> ArgMax -> Cast"),
    Case("argmax_nan_after_infinity", lambda x: lax.argmax(x, 0, np.int32),
         [np.array([1, np.inf, np.nan, 2, np.nan], np.float32)], ("argmax",), expect="ReduceL1 -> IsNaN -> If -> Cast"),
    Case("argmin", lambda x: lax.argmin(x, 1, np.int32), [("B", "N")], ("argmin",), values="special",
         expect="ReduceL1 -> IsNaN -> If -> Cast"),
    Case("argmax_of_softmax", lambda x: lax.argmax(jax.nn.softmax(x), 1, np.int32), [("B", 5)], ("argmax",), "Softmax -> ArgMax:B -> Cast:B",
         values="special"),
    Case("argmin_of_softmax_elsewhere", lambda x: lax.argmin(jax.nn.softmax(x), 0, np.int32), [(3, 5)], ("argmin",), values="special",
         expect="Softmax -> ReduceL1 -> IsNaN -> If -> Cast"),
    Case("argmin_int8", lambda x: lax.argmin(x, 0, np.int32), [((5, 3), np.int8)], ("argmin",), expect="ArgMin -> Cast"),
    Case("reduce_max_of_finite", lambda x: lax.reduce_max(x, (1,)), [("B", "N")], ("reduce_max",), "ReduceMax:B", options=ASSUME_FINITE),
    Case("reduce_min_of_finite", lambda x: lax.reduce_min(x, (1,)), [("B", "N")], ("reduce_min",), "ReduceMin:B", options=ASSUME_FINITE),
    Case("max_of_masked_finite", lambda x: jnp.max(x, 1, where=x > jnp.min(x), initial=-jnp.inf), [("B", 5)], ("reduce_max",),
         expect_graph(counts={"IsNaN": 0, "ReduceMax": 1}), options=ASSUME_FINITE),
    Case("argmax_of_finite", lambda x: lax.argmax(x, 1, np.int32), [("B", "N")], ("argmax",), "ArgMax:B -> Cast:B", options=ASSUME_FINITE),
    Case("argmin_of_finite", lambda x: lax.argmin(x, 1, np.int32), [("B", "N")], ("argmin",), "ArgMin:B -> Cast:B", options=ASSUME_FINITE),
]  # fmt: skip
