"""Cases of `linear`."""

from __future__ import annotations

from flax import nnx
from jax2onnx_core import Case, construct, expect_graph, with_dtype, with_rngs

__all__ = ["cases"]

_OPTIONS = {"param_dtype": with_dtype(), "rngs": with_rngs(0)}
_DENSE = expect_graph("MatMul -> Add", match="exact")

cases = [
    Case("linear", construct(nnx.Linear, 8, 6, **_OPTIONS), [("B", 5, 8)], expect=_DENSE),
    Case("linear_of_a_matrix", construct(nnx.Linear, 8, 6, **_OPTIONS), [("B", 8)], expect=_DENSE),
    Case(
        "linear_without_bias",
        construct(nnx.Linear, 8, 6, use_bias=False, **_OPTIONS),
        [("B", "T", 8)],
        expect=expect_graph("MatMul", match="exact"),
    ),
    Case(
        "linear_general_to_heads",
        construct(nnx.LinearGeneral, 8, (2, 3), **_OPTIONS),
        [("B", "T", 8)],
        covers=("nn.linear",),
        expect=expect_graph("MatMul -> Add -> Reshape", match="exact"),
    ),
    Case(
        "linear_general_from_heads",
        construct(nnx.LinearGeneral, (2, 3), 8, axis=(-2, -1), **_OPTIONS),
        [("B", "T", 2, 3)],
        expect=expect_graph("Reshape -> MatMul -> Add", match="exact"),
    ),
    Case(
        "linear_general_over_another_axis",
        construct(nnx.LinearGeneral, 4, 6, axis=1, **_OPTIONS),
        [("B", 4, "T")],
        expect=expect_graph("Transpose:BxTx4 -> MatMul -> Add", match="exact"),
    ),
    Case(
        "linear_general_with_batch_axis",
        construct(nnx.LinearGeneral, 5, 6, batch_axis={0: 3}, **_OPTIONS),
        [(3, "T", 5)],
        expect=_DENSE,
    ),
    Case(
        "einsum_to_heads",
        construct(nnx.Einsum, "...d,dnh->...nh", (8, 2, 3), (2, 3), **_OPTIONS),
        [("B", "T", 8)],
        expect=expect_graph("MatMul -> Add -> Reshape", match="exact"),
    ),
    Case(
        "einsum_of_another_kind",
        construct(nnx.Einsum, "btd,dn->bnt", (8, 3), **_OPTIONS),
        [("B", "T", 8)],
        expect=expect_graph("MatMul -> Transpose", match="exact"),
    ),
]
