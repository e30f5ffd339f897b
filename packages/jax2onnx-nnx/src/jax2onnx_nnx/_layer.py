"""Helpers of the composites of layers: reading parameters, and promoting dtypes as the layer does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import jax
from jax.typing import DTypeLike
from jax2onnx_lax.dtypes import of_one_float_type

if TYPE_CHECKING:
    from flax import nnx
    from flax.typing import PromoteDtypeFn

__all__ = ["Layer", "parameter", "promoted"]


class Layer(Protocol):
    """A layer that computes in a type of its own choice."""

    dtype: DTypeLike | None
    promote_dtype: PromoteDtypeFn


def parameter(variable: nnx.Variable[jax.Array] | None) -> jax.Array | None:
    """The array of a variable, None where the layer has none. Always the very same object."""
    return None if variable is None else variable[...]


def promoted(layer: Layer, *arrays: jax.Array | None) -> tuple[jax.Array | None, ...] | None:
    """The arrays (or None) after the layer's own dtype promotion; None unless all became one float type."""
    arrays = layer.promote_dtype(arrays, dtype=layer.dtype)
    return arrays if of_one_float_type(*arrays) else None
