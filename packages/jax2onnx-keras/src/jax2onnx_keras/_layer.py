"""Helpers of the composites of layers: arrays of variables, activations, layouts of images."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

import jax
import jax.numpy as jnp
from jax2onnx_core import Call, bind_composite
from jax2onnx_lax.dtypes import of_one_float_type

if TYPE_CHECKING:
    import keras

__all__ = [
    "WithActivation",
    "activated",
    "array",
    "as_channels_last",
    "from_channels_last",
    "layer_operation",
    "of_one_type",
    "with_bias",
]


class WithActivation(Protocol):
    """A layer that applies a function to its result at last."""

    activation: Callable[[jax.Array], jax.Array] | None


def array(weight: keras.Variable | jax.Array | None) -> jax.Array | None:
    """The array of a variable, cast where Keras computes in another type; None where the layer has none."""
    import keras

    return weight.value if isinstance(weight, keras.Variable) else weight


def of_one_type(*arrays: jax.Array | None) -> bool:
    """Whether the arrays that are not None have one dtype, of floats of at least 32 bits.

    With fewer, many layers of Keras compute in float32 in between.
    """
    return of_one_float_type(*arrays) and all(x is None or x.dtype.itemsize >= 4 for x in arrays)


def layer_operation(name: str, call: Call, original: Callable[[], jax.Array]) -> jax.Array:
    """Compute a part of a layer as a layer operation.

    Args:
      name: the name of the operation, such as "nn.linear".
      call: its operands and parameters.
      original: the same computation by functions of JAX.

    Returns:
      The result of the operation, in the trace.
    """
    return bind_composite(name, call, original, keep_under_vmap=(0,))


def with_bias(y: jax.Array, bias: jax.Array | None) -> jax.Array:
    """`y` plus a bias along its last axes, if there is one."""
    return y if bias is None else y + bias


def activated(layer: WithActivation, y: jax.Array) -> jax.Array:
    """The activation of a layer applied to its product or convolution `y`."""
    return y if layer.activation is None else layer.activation(y)


def as_channels_last(x: jax.Array, data_format: str) -> jax.Array:
    """`x` with the channels as its last axis, where a layer of this data format has it."""
    return x if data_format == "channels_last" else jnp.moveaxis(x, 1, -1)


def from_channels_last(x: jax.Array, data_format: str) -> jax.Array:
    """`x`, whose channels are its last axis, as a layer of this data format has it."""
    return x if data_format == "channels_last" else jnp.moveaxis(x, -1, 1)
