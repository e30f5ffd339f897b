"""Activations that do not go through `jax.nn`: `PReLU` as "nn.prelu", `mish` as `jax.nn.mish`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax
from jax2onnx_core import Call, Composites, Replacement

from jax2onnx_keras._layer import array, of_one_type

if TYPE_CHECKING:
    import keras

__all__ = ["composites"]

composites = Composites()


@composites.call("keras.layers:PReLU.call", name="nn.prelu")
def prelu(self: keras.layers.PReLU, inputs: jax.Array) -> Call | None:
    """Kept because the layer's own formula would be two Relus, a product and a sum."""
    slope = array(self.alpha)
    return Call(inputs, slope) if of_one_type(inputs, slope) else None


@composites.call("keras.activations:mish", name="jax.nn.mish")
def mish(x: jax.Array) -> Replacement | None:
    """Kept because Keras computes it by its softplus and tanh, three operators."""
    return Replacement(jax.nn.mish(x)) if of_one_type(x) else None
