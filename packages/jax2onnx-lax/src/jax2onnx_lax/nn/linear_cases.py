"""Cases of `linear`."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax2onnx_core import Call, Case, bind_composite

from jax2onnx_lax.nn._weights import weights

__all__ = ["cases"]

_DENSE = "MatMul -> Add"


def _linear(x: jax.Array) -> jax.Array:
    kernel, bias = weights(8, 6).astype(x.dtype), weights(6).astype(x.dtype)
    return bind_composite("nn.linear", Call(x, kernel, bias, contracted=1), lambda: x @ kernel + bias)


def _linear_transposed(x: jax.Array) -> jax.Array:
    kernel, bias = weights(6, 8).astype(x.dtype), weights(6).astype(x.dtype)
    call = Call(x, kernel, bias, contracted=1, transposed=True)
    return bind_composite("nn.linear", call, lambda: x @ kernel.T + bias)


def _from_heads(x: jax.Array) -> jax.Array:
    kernel = weights(2, 3, 5).astype(x.dtype)
    call = Call(x, kernel, None, contracted=2)
    return bind_composite("nn.linear", call, lambda: jnp.einsum("btnh,nhd->btd", x, kernel))


def _of_inputs(x: jax.Array, kernel: jax.Array, bias: jax.Array) -> jax.Array:
    call = Call(x, kernel, bias, contracted=1)
    return bind_composite("nn.linear", call, lambda: jnp.einsum("bi,ino->bno", x, kernel) + bias)


cases = [
    Case("nn_linear", _linear, [("B", 5, 8)], covers=("nn.linear",), expect=_DENSE),
    Case("nn_linear_transposed", _linear_transposed, [("B", 5, 8)], expect=_DENSE),
    Case("nn_linear_of_one_vector", _linear, [(8,)], expect=_DENSE),
    Case(
        "nn_linear_from_heads",
        _from_heads,
        [("B", "T", 2, 3)],
        expect="Reshape -> MatMul",
    ),
    Case("nn_linear_of_inputs", _of_inputs, [("B", 4), (4, 2, 3), (2, 3)],
         expect=["Reshape -> MatMul -> Add -> Reshape", "Reshape -> Add"]),
]  # fmt: skip
