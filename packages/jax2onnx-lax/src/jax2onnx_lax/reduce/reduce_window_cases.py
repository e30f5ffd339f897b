"""Cases of `reduce_window` and `pooling`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax2onnx_core import Case, expect_graph

from jax2onnx_lax._case_helpers import ASSUME_FINITE, at_most

__all__ = ["cases"]

Padding = str | Sequence[tuple[int, int]]


def _window(
    initial: float, computation: Callable[..., jax.Array], window: Sequence[int], strides: Sequence[int] | None = None,
    padding: Padding = "VALID", **params: Sequence[int],
) -> Callable[..., jax.Array]:  # fmt: skip
    return lambda x: lax.reduce_window(
        x, np.asarray(initial, x.dtype), computation, window, strides or (1,) * len(window), padding, **params
    )


def _max_pool(
    window: Sequence[int], strides: Sequence[int] | None = None, padding: Padding = "VALID", **params: Sequence[int]
) -> Callable[..., jax.Array]:
    return _window(-np.inf, lax.max, window, strides, padding, **params)


def _pair(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Sum and greatest element of each window at once."""
    initial = np.asarray(0, x.dtype), np.asarray(-np.inf, x.dtype)
    return lax.reduce_window(
        (x, x), initial, lambda a, b: (a[0] + b[0], jnp.maximum(a[1], b[1])), (2, 3), (1, 2), "SAME"
    )


_sum, _max, _min = ("reduce_window_sum",), ("reduce_window_max",), ("reduce_window_min",)
_any = ("reduce_window",)
_infinite = np.array([[1, -np.inf, -np.inf, 2, np.nan, 0, 3], [-np.inf, -np.inf, -np.inf, 0, 1, 2, np.inf]], np.float32)

cases = [
    Case("max_nchw", _max_pool((1, 1, 2, 2), (1, 1, 2, 2)), [("B", 3, 8, 8)], _max,
         ["MaxPool:Bx3x4x4", "ReduceL1 -> Less -> If:Bx3x4x4"]),
    Case("max_nhwc_same", _max_pool((1, 3, 3, 1), (1, 2, 2, 1), "SAME"), [("B", 9, 8, 3)], _max,
         ["Transpose -> MaxPool:Bx3x5x4", "Transpose -> ReduceL1 -> Less -> If:Bx3x5x4 -> Transpose:Bx5x4x3"]),
    Case("max_symbolic_space", _max_pool((1, 2, 2, 1), (1, 2, 2, 1)), [("B", "2*H", "W + 1", 3)], _max,
         expect_graph("MaxPool")),
    Case("max_valid_any_size", _max_pool((1, 2, 9, 1), (1, 2, 1, 1)), [("B", "H + 1", "W + 8", 3)], _max,
         expect=at_most(20, If=1)),
    Case("max_symbolic_same", _max_pool((1, 3, 3, 1), (1, 2, 2, 1), "SAME"), [("B", "H", "W", 3)], _max,
         expect=at_most(40, If=1)),
    Case("max_not_finite", _max_pool((1, 2), (1, 1), [(0, 0), (1, 0)]), [_infinite], _max,
         expect=["Unsqueeze -> MaxPool", "ReduceL1 -> Less -> If -> Squeeze"]),
    Case("max_of_everything", _max_pool((1, 6, 7, 1)), [("B", 6, 7, 3)], _max, expect_graph("ReduceMax", counts={"MaxPool": 0})),
    Case("max_symbolic_window", lambda x: _max_pool((1, x.shape[1]))(x), [("B", "N")], _max,
         expect=["ReduceMax -> Where -> Unsqueeze", "Abs -> ReduceSum -> IsNaN -> Where"],
         declines="a window over everything is a reduction"),
    Case("max_dilated", _max_pool((2, 3), (1, 2), [(1, 2), (3, 0)], window_dilation=(2, 1), base_dilation=(1, 2)),
         [(7, 8)], _max, expect=at_most(20)),
    Case("max_large_window", _max_pool((1, 100)), [(2, 300)], _max,
         expect=["Unsqueeze -> MaxPool", "ReduceL1 -> Less -> If -> Squeeze"]),
    Case("max_int8", _window(-128, lax.max, (1, 1, 2, 2)), [((2, 3, 5, 5), np.int8)], _max, "MaxPool"),
    Case("max_int32", _window(-(2**31), lax.max, (2, 2)), [((5, 5), np.int32)], _max,
         expect="Unsqueeze -> Cast -> MaxPool -> Cast -> Squeeze"),
    Case("max_complex", _window(-np.inf, lax.max, (2, 1)), [((5, 2), np.complex64)], _any, expect=at_most(20, Gather=2)),
    Case("min", _window(np.inf, lax.min, (1, 3, 3), (1, 1, 2), "SAME"), [("B", 7, 7)], _min, values="special",
         expect=["Neg -> Unsqueeze -> MaxPool", "ReduceL1 -> Less -> If -> Squeeze -> Neg"]),
    Case("min_int32", _window(2**31 - 1, lax.min, (2, 2)), [((5, 5), np.int32)], _min,
         expect=["Slice -> Min -> Slice -> Min", "Slice -> Min", "Slice -> Min"], declines="only floats can be negated without overflow"),
    Case("sum_nchw", _window(0, lax.add, (1, 1, 2, 2), (1, 1, 2, 2)), [("B", 3, 8, 8)], _sum,
         expect="AveragePool -> Mul"),
    Case("sum_nhwc_same", _window(0, lax.add, (1, 3, 3, 1), (1, 2, 2, 1), "SAME"), [("B", 9, 8, 3)], _sum,
         expect="Transpose -> AveragePool -> Mul -> Transpose"),
    Case("sum_symbolic_same", _window(0, lax.add, (1, 3, 3, 1), (1, 2, 2, 1), "SAME"), [("B", "H", "W", 3)], _sum,
         expect="Transpose -> AveragePool -> Mul -> Transpose"),
    Case("sum_of_everything", _window(0, lax.add, (1, 6, 7, 1)), [("B", 6, 7, 3)], _sum, expect_graph("ReduceSum")),
    Case("sum_dilated", _window(0, lax.add, (3, 2), (2, 1), [(1, 2), (-1, 0)], window_dilation=(2, 2)), [(9, 8)], _sum,
         expect=["Pad -> Slice -> Add -> Add -> Slice -> Add", "Slice -> Add", "Slice -> Add", "Slice -> Add"], declines="dilated windows"),
    Case("sum_int32", _window(0, lax.add, (2, 2)), [((5, 5), np.int32)], _sum,
         expect=["Slice -> Add -> Slice -> Add", "Slice -> Add", "Slice -> Add"],
         declines="only floats of single precision or less are averaged"),
    Case("sum_large_window_int32", _window(0, lax.add, (77,), (3,)), [((300,), np.int32)], _sum, expect=at_most(30)),
    Case("sum_complex", _window(0, lax.add, (2, 2)), [((5, 5), np.complex64)], _sum,
         expect=at_most(20, AveragePool=2, Gather=2)),
    Case("sum_gradient", jax.grad(lambda x: (_window(0, lax.add, (2, 3), (1, 2))(x) ** 2).sum()), [(6, 7)], _sum,
         expect=at_most(20, AveragePool=2)),
    Case("max_same_with_gaps", _window(-np.inf, lax.max, (2, 1), (3, 1), "SAME"), [("N", "C")], _max, expect=at_most(30),
         declines="SAME_UPPER of strides beyond the window can be less than no padding"),
    Case("max_of_single_elements", _window(-np.inf, lax.max, (1, 1), (3, 1), "SAME"), [(7, 4)], _max, "Slice",
         declines="windows of one element are a slice"),
    Case("max_of_single_elements_of_none", lambda x: _window(-5, lax.max, (1,), (3,), "SAME")(x[1:]), [(("N",), np.int32)],
         _any, expect=at_most(30, Gather=1)),
    Case("product_of_none", lambda x: _window(2, lax.mul, (2, 1), (2, 1), "SAME")(x[1:]), [("N", "C")], _any,
         expect=at_most(50, Gather=2)),
    Case("product", _window(1, lax.mul, (2, 3), (1, 2), "SAME"), [(6, 7)], _any,
         expect=["Pad -> Slice -> Mul -> Slice -> Mul -> Mul", "Slice -> Mul", "Slice -> Mul", "Slice -> Mul"]),
    Case("and", _window(True, lax.bitwise_and, (2, 2)), [((5, 5), np.bool_)], _any,
         expect=["Slice -> And -> Slice -> And", "Slice -> And", "Slice -> And"]),
    Case("or_of_bits", _window(0, lax.bitwise_or, (2, 9)), [((5, 20), np.int32)], _any, expect=at_most(20)),
    Case("from_elsewhere", _window(2, lax.add, (2, 2), (1, 2), [(1, 1), (0, 2)]), [(6, 7)], _any,
         expect=["Pad -> Slice -> Add -> Slice -> Add -> Add", "Slice -> Add", "Slice -> Add"]),
    Case("two_operands", _pair, [(6, 7)], _any, expect=at_most(40)),
    Case("nothing_left", _max_pool((1, 9)), [(2, 5)], _max, expect="Identity"),
    Case("vmap", jax.vmap(_max_pool((2, 2), (2, 2)), 1), [(6, "B", 8)], _max,
         expect=["Unsqueeze -> Transpose -> MaxPool", "ReduceL1 -> Less -> If -> Squeeze"]),
    Case("max_of_finite", _max_pool((1, 2, 2), (1, 2, 2)), [("B", 6, 8)], _max, expect_graph(counts={"MaxPool": 1, "If": 0}), options=ASSUME_FINITE),
]  # fmt: skip
