"""`EinsumDense` as "nn.linear"; `Dense` needs no composite."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
from jax2onnx_core import Call, Composites, Replacement
from jax2onnx_lax.nn.linear import contracted_axes

from jax2onnx_keras._layer import activated, array, layer_operation, of_one_type, with_bias

if TYPE_CHECKING:
    import keras

__all__ = ["composites"]

composites = Composites()


@composites.call("keras.layers:EinsumDense.call", name="nn.linear")
def einsum_dense(self: keras.layers.EinsumDense, inputs: jax.Array, training: bool | None = None) -> Replacement | None:
    """Kept because the bias would be added behind the reshape to heads, which then does not meet that of the
    attention: seven reshapes more.
    """
    kernel, bias = array(self.kernel), array(self.bias)
    contracted = contracted_axes(self.equation, inputs.ndim)
    if contracted is None or kernel is None or not of_one_type(inputs, kernel, bias):
        return None
    if bias is not None and bias.shape != kernel.shape[contracted:]:
        return None
    call = Call(inputs, kernel, bias, contracted=contracted)
    y = layer_operation("nn.linear", call, lambda: with_bias(jnp.tensordot(inputs, kernel, contracted), bias))
    return Replacement(activated(self, y))
