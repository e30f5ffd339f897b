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
    if not _has_nothing_to_promote(layer, arrays):
        arrays = layer.promote_dtype(arrays, dtype=layer.dtype)
    return arrays if of_one_float_type(*arrays) else None


def _has_nothing_to_promote(layer: Layer, arrays: tuple[jax.Array | None, ...]) -> bool:
    """Whether Flax's promotion would give these very arrays; asked first, as it takes far longer to find that out."""
    from flax.nnx.nn import dtypes

    present = [x for x in arrays if x is not None]
    if layer.promote_dtype is not dtypes.promote_dtype or not of_one_float_type(*present, dtype=layer.dtype):
        return False
    is_kept = jax.dtypes.canonicalize_dtype(present[0].dtype) == present[0].dtype
    return is_kept and all(isinstance(x, jax.Array) and not x.weak_type for x in present)
