"""Cases of `linear`."""

from __future__ import annotations

from jax2onnx_core import Case, expect_graph
from keras import layers

from jax2onnx_keras._built import built

__all__ = ["cases"]

_DENSE = "MatMul -> Add"
_X = (None, None, 8)
_TOKENS = [("B", "T", 8)]

cases = [
    Case("dense", built(layers.Dense, _X, 6), _TOKENS, expect=_DENSE),
    Case("dense_of_a_matrix", built(layers.Dense, (None, 8), 6), [("B", 8)], expect=_DENSE),
    Case(
        "dense_with_activation",
        built(layers.Dense, _X, 6, activation="gelu", use_bias=False),
        _TOKENS,
        expect="MatMul -> Gelu",
    ),
    Case("dense_lora", built(layers.Dense, _X, 6, lora_rank=2), _TOKENS, expect=_DENSE, rtol=1e-5),
    Case(
        "einsum_dense_to_heads",
        built(layers.EinsumDense, _X, "abc,cde->abde", (None, 2, 3), bias_axes="de", activation="relu"),
        _TOKENS,
        covers=("nn.linear",),
        expect="MatMul -> Add -> Reshape -> Relu",
    ),
    Case(
        "einsum_dense_from_heads",
        built(layers.EinsumDense, (None, None, 2, 3), "abcd,cde->abe", (None, 8), bias_axes="e"),
        [("B", "T", 2, 3)],
        expect="Reshape -> MatMul -> Add",
    ),
    Case(
        "einsum_dense_with_another_bias",
        built(layers.EinsumDense, _X, "abc,cde->abde", (None, 2, 3), bias_axes="e"),
        _TOKENS,
        expect=expect_graph("MatMul -> Reshape:BxTx2x3 -> Add", counts={"MatMul": 1}, absent=["Transpose"]),
    ),
    Case(
        "einsum_dense_of_another_kind",
        built(layers.EinsumDense, _X, "abc,cd->adb", (6, None)),
        _TOKENS,
        expect="MatMul -> Transpose",
    ),
]
