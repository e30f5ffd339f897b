"""Cases of `dot_general`."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax2onnx_core import Case, expect_graph
from jax2onnx_graph.build.builder import Array

from jax2onnx_lax._case_helpers import Fn, at_most

__all__ = ["cases"]


def _weights(*shape: int) -> Array:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


_W, _TABLE = _weights(8, 6), _weights(16, 8)
_DOWN, _UP = _weights(8, 2), _weights(2, 6)


Axes = tuple[Sequence[int], Sequence[int]]


def _dot(contracted: Axes, batch: Axes = ((), ()), preferred_element_type: type[np.generic] | None = None) -> Fn:
    return lambda x, y: lax.dot_general(x, y, (contracted, batch), preferred_element_type=preferred_element_type)


def _loss(w: jax.Array, x: jax.Array) -> jax.Array:
    return jnp.sum(jnp.tanh(x @ w) ** 2)


def _ragged(x: jax.Array, w: jax.Array, sizes: jax.Array) -> jax.Array:
    return lax.ragged_dot(x, w, sizes)


def _ragged_contraction(x: jax.Array, y: jax.Array, sizes: jax.Array) -> jax.Array:
    numbers = lax.RaggedDotDimensionNumbers((((0,), (0,)), ((), ())), [0], [])
    return lax.ragged_dot_general(x, y, sizes, numbers)


_EMBEDDINGS = np.linspace(-1, 1, 2400, dtype=np.float32).reshape(300, 8)


def _tied(i: jax.Array) -> jax.Array:
    return jnp.take(_EMBEDDINGS, i, axis=0) @ _EMBEDDINGS.T


_covers = ("dot_general",)
_exact_matmul = "MatMul"


def _gathered(equation: str, *, columns: int = 192) -> Fn:
    """A product with matrices that are taken from a table of four by number."""

    def product(x: jax.Array, numbers: jax.Array) -> jax.Array:
        table = jnp.sin(jnp.arange(4 * 64 * columns, dtype=x.dtype)).reshape(4, 64, columns)
        return jnp.einsum(equation, x, table[numbers])

    return product


cases = [
    Case("dense", lambda x: x @ _W.astype(x.dtype), [("B", 8)], _covers, "MatMul:Bx6"),
    Case("dense_of_rank_4", lambda x: x @ _W.astype(x.dtype), [("B", "T", 3, 8)], _covers, "MatMul:BxTx3x6"),
    Case("weight_in_front", lambda x: lax.dot_general(_W.astype(x.dtype), x, (((0,), (2,)), ((), ()))), [("B", "T", 8)],
         _covers, "MatMul:BxTx6 -> Transpose:6xBxT"),
    Case("einsum_with_a_weight_in_front",
         lambda x: jnp.einsum("btd,dr,ro->bto", x, _DOWN.astype(x.dtype), _UP.astype(x.dtype)), [("B", "T", 8)],
         _covers,
         "MatMul:BxTx2 -> MatMul:BxTx6"),
    Case("tied_table", lambda x: x @ _TABLE.astype(x.dtype).T, [(5, 8)], _covers, expect="MatMul"),
    Case("tied_table_of_embeddings", _tied, [(("B", "T"), np.int32)], _covers,
         expect_graph("Reshape -> Gemm -> Reshape:BxTx300", absent=["MatMul", "Transpose"])),
    Case("contract_last_with_last", _dot(((1,), (1,))), [(5, 8), (7, 8)], _covers, "Gemm:5x7"),
    Case("contract_first_with_first", _dot(((0,), (0,))), [(8, 5), (8, 7)], _covers, "Gemm:5x7"),
    Case("rows_times_constant_table", lambda x: lax.dot_general(x, _TABLE.astype(x.dtype), (((2,), (1,)), ((), ()))),
         [("B", 3, 8)], _covers, "Reshape -> Gemm -> Reshape:Bx3x16"),
    Case("vector_times_matrix", _dot(((0,), (0,))), [(8,), (8, 3)], _covers, _exact_matmul),
    Case("matrix_times_vector", _dot(((1,), (0,))), [("N", 8), (8,)], _covers, "Reshape:1x8 -> Gemm:1xN -> Reshape:N"),
    Case("vectors", _dot(((0,), (0,))), [("N",), ("N",)], _covers, _exact_matmul),
    Case("outer", _dot(((), ())), [("M", 2), ("N",)], _covers, expect_graph("Mul:Mx2xN", counts={"MatMul": 0})),
    Case("scalars", _dot(((), ())), [(), ()], _covers, "Mul"),
    Case("batched", _dot(((2,), (1,)), ((0,), (0,))), [("B", 4, 8), ("B", 8, 3)], _covers, "MatMul:Bx4x3"),
    Case("attention_scores", lambda q, k: jnp.einsum("bqhd,bkhd->bhqk", q, k), [("B", "T", 2, 8), ("B", "S", 2, 8)],
         _covers, expect_graph("Transpose -> MatMul:Bx2xTxS", counts={"Transpose": 2}, match="exact")),
    Case("several_contracted", lambda x, y: jnp.einsum("abc,bcd->ad", x, y), [("A", 3, 4), (3, 4, 5)], _covers,
         expect_graph("Reshape -> MatMul:Ax5", counts={"Transpose": 0})),
    Case("several_contracted_out_of_order", lambda x, y: jnp.einsum("abc,cbd->ad", x, y), [(2, 3, 4), (4, 3, 5)],
         _covers, expect_graph(counts={"Transpose": 1, "MatMul": 1})),
    Case("several_free", lambda x, y: jnp.einsum("abk,kcd->abcd", x, y), [("A", 3, 4), (4, 2, "D")], _covers,
         expect=["Shape -> Concat -> Reshape", "Shape -> Concat", "Reshape -> MatMul -> Reshape", "Reshape -> MatMul"]),
    Case("batch_in_the_middle", _dot(((0,), (2,)), ((1,), (1,))), [(4, "B", 3), (5, "B", 4)], _covers,
         expect=["Transpose -> MatMul", "Transpose -> MatMul"]),
    Case("batch_of_vectors", _dot(((1,), (1,)), ((0,), (0,))), [("B", 4), ("B", 4)], _covers,
         expect=["Reshape -> MatMul -> Reshape", "Reshape -> MatMul"]),
    Case("nothing_contracted", lambda x, y: jnp.einsum("ab,ac->abc", x, y), [("A", 3), ("A", 2)], _covers,
         expect=["Reshape -> Mul", "Reshape -> Mul"]),
    Case("empty_contraction", _dot(((1,), (0,))), [(3, 0), (0, 4)], _covers, expect="Expand"),
    Case("bytes", _dot(((1,), (0,)), preferred_element_type=np.int32), [((5, 8), np.int8), ((8, 3), np.int8)], _covers,
         "MatMulInteger"),
    Case("bytes_to_bytes", _dot(((1,), (0,))), [((5, 8), np.uint8), ((8, 3), np.uint8)], _covers,
         "MatMulInteger -> Cast"),
    Case("bool", _dot(((1,), (0,))), [((5, 8), np.bool_), ((8, 3), np.bool_)], _covers,
         expect=["Cast -> MatMulInteger -> Cast", "Cast -> MatMulInteger"]),
    Case("int16", _dot(((1,), (0,))), [((5, 8), np.int16), ((8, 3), np.int16)], _covers,
         expect=["Cast -> MatMul -> Cast", "Cast -> MatMul"]),
    Case("int32", _dot(((1,), (0,))), [((5, 8), np.int32), ((8, 3), np.int32)], _covers, _exact_matmul),
    Case("uint32", _dot(((1,), (0,))), [((5, 8), np.uint32), ((8, 3), np.uint32)], _covers, _exact_matmul),
    Case("float16", _dot(((1,), (0,))), [((5, 8), np.float16), ((8, 3), np.float16)], _covers, rtol=4e-3, atol=4e-3,
         expect="MatMul", declines=["no algorithm that rounds", "no gathered matrices"]),
    Case("float16_to_float32", _dot(((1,), (0,)), preferred_element_type=np.float32),
         [((5, 8), np.float16), ((8, 3), np.float16)], _covers, expect=["Cast -> MatMul", "Cast -> MatMul"]),
    Case("algorithm_of_float16", lambda x: lax.dot(x, x, precision=lax.DotAlgorithmPreset.F16_F16_F16),
         [np.array([[1 + 2**-12, 0], [0, 300]], np.float32)], _covers, skip={"f64": "The algorithm takes float32."},
         expect=at_most(70, MatMul=1), declines="an algorithm is asked for"),
    Case("bfloat16_with_float32", _dot(((1,), (0,)), preferred_element_type=np.float32),
         [((5, 8), jnp.bfloat16), ((8, 3), np.float32)], _covers, expect="Cast -> MatMul"),
    Case("complex", _dot(((1,), (0,))), [((5, 8), np.complex64), ((8, 3), np.complex64)], _covers,
         expect=at_most(20, Gather=4, MatMul=4)),
    Case("gradient", jax.grad(_loss), [(8, 3), (5, 8)], _covers, expect=at_most(10, Gemm=1, MatMul=1)),
    Case("transposed", lambda a, b: ((a @ b.T).T, (a.T @ a).T, (b @ a.T).T), [(3, 4), (5, 4)], _covers,
         expect=expect_graph(counts={"Gemm": 3}, absent=["Transpose"])),
    Case("vmap", jax.vmap(_dot(((0,), (0,))), in_axes=(1, None)), [(8, 5), (8, 3)], _covers, expect="Gemm"),
    Case("gathered_matrices", _gathered("td,tkdf->tkf"), [("T", 64), (("T", 2), np.int32)], _covers,
         expect_graph(counts={"Split": 1, "MatMul": 4})),
    Case("gathered_matrices_summed", _gathered("tkd,tkdf->tf"), [("T", 2, 64), (("T", 2), np.int32)], _covers,
         expect_graph(counts={"Split": 1, "MatMul": 4})),
    Case("gathered_matrices_that_are_small", _gathered("td,tdf->tf", columns=5), [("T", 64), (("T",), np.int32)], _covers,
         expect_graph(counts={"Split": 0, "MatMul": 1}),
         declines="gathered matrices are so small that copying them takes less time than sorting rows"),
    Case("ragged", _ragged, [(10, 4), (3, 4, 5), np.array([4, 0, 5], np.int32)], ("ragged_dot_general",),
         expect_graph("Split -> MatMul -> Concat", counts={"MatMul": 3})),
    Case("ragged_contraction", _ragged_contraction, [(10, 4), (10, 5), np.array([4, 0, 5], np.int32)],
         ("ragged_dot_general",), expect=at_most(30, CumSum=1, MatMul=3)),
]  # fmt: skip
