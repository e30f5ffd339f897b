"""Cases of `normalization`."""

from __future__ import annotations

import jax
from flax import nnx
from jax.typing import DTypeLike
from jax2onnx_core import Case, construct, expect_graph
from jax2onnx_lax.nn.flax_layers import normalization_cases

from jax2onnx_nnx._trained import OPTIONS, library, trained

__all__ = ["cases"]


class ConvNorm(nnx.Module):
    """A convolution and its batch norm, at inference."""

    def __init__(self, *, param_dtype: DTypeLike, rngs: nnx.Rngs) -> None:
        self.conv = nnx.Conv(4, 6, (3, 3), use_bias=False, param_dtype=param_dtype, rngs=rngs)
        self.norm = nnx.BatchNorm(6, use_running_average=True, param_dtype=param_dtype, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        return nnx.relu(self.norm(self.conv(x)))


cases = [
    *normalization_cases(library),
    Case(
        "batch_norm_in_training",
        construct(nnx.BatchNorm, 8, **OPTIONS),
        [(5, 8)],
        expect=expect_graph(
            "ReduceMean:8 -> Mul -> Sub -> Relu", "Add -> Sqrt -> Reciprocal -> Mul -> Add", counts={"ReduceMean": 2}
        ),
    ),
    Case(
        "batch_norm_goes_into_the_convolution",
        construct(trained, ConvNorm, **OPTIONS),
        [("B", 6, 5, 4)],
        expect="Transpose -> Conv -> Transpose -> Relu",
    ),
]
