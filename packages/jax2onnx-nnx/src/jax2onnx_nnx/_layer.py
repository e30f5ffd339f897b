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
    """A layer with a dtype of computation and a function that converts arrays to it."""

    dtype: DTypeLike | None
    promote_dtype: PromoteDtypeFn


def parameter(variable: nnx.Variable[jax.Array] | None) -> jax.Array | None:
    """The array of a variable, at each call the very same object; None for None, where the layer has no such variable."""
    return None if variable is None else variable[...]


def promoted(layer: Layer, *arrays: jax.Array | None) -> tuple[jax.Array | None, ...] | None:
    """The arrays (or None) after the layer's own dtype promotion; None in place of all unless they have one float dtype then."""
    arrays = layer.promote_dtype(arrays, dtype=layer.dtype)
    return arrays if of_one_float_type(*arrays) else None
