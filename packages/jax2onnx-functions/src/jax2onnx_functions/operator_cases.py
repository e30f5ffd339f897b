"""Cases of `operator`: operators of a domain that the default target runs."""

from __future__ import annotations

from typing import Literal

import jax
import jax.numpy as jnp
from jax2onnx_core import Case, expect_graph

from jax2onnx_functions.function import onnx_function
from jax2onnx_functions.operator import custom_op

__all__ = ["cases"]

_MICROSOFT = "com.microsoft"
_F32_ONLY: dict[Literal["f32", "f64"], str] = {"f64": "the default target runs this operator for float32 only"}


@custom_op("QuickGelu", domain=_MICROSOFT, attributes={"alpha": 1.702})
def quick_gelu(x: jax.Array) -> jax.Array:
    return x * jax.nn.sigmoid(1.702 * x)


@custom_op("FusedMatMul", domain=_MICROSOFT)
def fused_matmul(x: jax.Array, y: jax.Array, *, transB: int = 0, alpha: float = 1.0) -> jax.Array:
    return alpha * (x @ (y.T if transB else y))


@custom_op("BiasGelu", domain=_MICROSOFT)
def bias_gelu(x: jax.Array, bias: jax.Array) -> jax.Array:
    return jax.nn.gelu(x + bias, approximate=False)


cases = [
    Case("custom_op", lambda x: quick_gelu(x) + 1, [("N", 3)], covers=("jax2onnx.operator",), skip=_F32_ONLY,
         expect="com.microsoft.QuickGelu:Nx3 -> Add:Nx3"),
    Case("custom_op_with_attributes", lambda x, y: fused_matmul(x, y, transB=1, alpha=0.5), [("N", 3), (4, 3)],
         covers=("jax2onnx.operator",), skip=_F32_ONLY, expect="com.microsoft.FusedMatMul:Nx4"),
    Case("custom_op_of_two_operands", bias_gelu, [("N", 3), (3,)], covers=("jax2onnx.operator",), skip=_F32_ONLY,
         expect="com.microsoft.BiasGelu:Nx3"),
    Case("custom_op_in_a_function", onnx_function(lambda x: jnp.sin(quick_gelu(x))), [("N", 3)],
         covers=("jax2onnx.operator",), skip=_F32_ONLY,
         expect=expect_graph("com.microsoft.QuickGelu:Nx3 -> Sin:Nx3", search_functions=True)),
    # Under transformations there are the operations of the Python function.
    Case("custom_op_vmapped", jax.vmap(quick_gelu), [("N", 3)], covers=("jax2onnx.operator",),
         expect="Mul -> Sigmoid -> Mul"),
    Case("custom_op_grad", jax.grad(lambda x: quick_gelu(x).sum()), [("N", 3)], covers=("jax2onnx.operator",),
         expect="Mul -> Sigmoid -> Sub -> Mul -> Mul -> Mul -> Add"),
]  # fmt: skip
