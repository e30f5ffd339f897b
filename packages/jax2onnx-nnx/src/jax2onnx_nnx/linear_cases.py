"""Cases of `linear`."""

from __future__ import annotations

from flax import nnx
from jax2onnx_core import Case, construct
from jax2onnx_lax.nn.flax_layers import TOKENS, linear_cases

from jax2onnx_nnx._trained import OPTIONS, library

__all__ = ["cases"]

cases = [
    *linear_cases(library),
    Case(
        "linear_general_with_batch_axis",
        construct(nnx.LinearGeneral, 5, 6, batch_axis={0: 3}, **OPTIONS),
        [(3, "T", 5)],
        expect="MatMul -> Add",
    ),
    Case(
        "einsum_to_heads",
        construct(nnx.Einsum, "...d,dnh->...nh", (8, 2, 3), (2, 3), **OPTIONS),
        [TOKENS],
        expect="MatMul -> Add -> Reshape",
    ),
    Case(
        "einsum_of_another_kind",
        construct(nnx.Einsum, "btd,dn->bnt", (8, 3), **OPTIONS),
        [TOKENS],
        expect="MatMul -> Transpose",
    ),
]
