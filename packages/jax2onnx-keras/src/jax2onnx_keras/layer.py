"""What the composites of all layers share: weights, activations, the layout of images."""

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
    "of_one_type",
    "operation",
    "shifted",
]


class WithActivation(Protocol):
    """A layer whose last step is a function of its result."""

    activation: Callable[[jax.Array], jax.Array] | None


def array(weight: keras.Variable | jax.Array | None) -> jax.Array | None:
    """The array of a variable, cast where Keras computes in another type; None where the layer has none."""
    import keras

    return weight.value if isinstance(weight, keras.Variable) else weight


def of_one_type(*arrays: jax.Array | None) -> bool:
    """Whether the arrays that are not None have one type, of floats of at least 32 bits.

    With fewer, many layers of Keras compute in float32 in between.
    """
    return of_one_float_type(*arrays) and all(x is None or x.dtype.itemsize >= 4 for x in arrays)


def operation(name: str, call: Call, original: Callable[[], jax.Array]) -> jax.Array:
    """A layer operation that is a part of what a layer computes; `original` computes it by functions of JAX."""
    return bind_composite(name, call, original, keep_under_vmap=(0,))


def shifted(y: jax.Array, bias: jax.Array | None) -> jax.Array:
    """The sum with a bias along the last axes."""
    return y if bias is None else y + bias


def activated(layer: WithActivation, y: jax.Array) -> jax.Array:
    """What the layer makes of its product or convolution."""
    return y if layer.activation is None else layer.activation(y)


def as_channels_last(x: jax.Array, data_format: str) -> jax.Array:
    """Images of a layer with the channels as their last axis."""
    return x if data_format == "channels_last" else jnp.moveaxis(x, 1, -1)


def from_channels_last(x: jax.Array, data_format: str) -> jax.Array:
    """Images whose channels are the last axis as the layer has them."""
    return x if data_format == "channels_last" else jnp.moveaxis(x, -1, 1)
