"""The forms in which loops and branches hand on what a runtime has no loop for: 4-bit integers as bytes, complex numbers as their parts."""

from __future__ import annotations

from collections.abc import Iterable

import jax.numpy as jnp
from jax import Array
from jax2onnx_core import Aval, Complex
from jax2onnx_core.jaxprs import is_extended_dtype

from jax2onnx_lax.complex._arrays import joined, parts
from jax2onnx_lax.dtypes import Dtype, is_integer, is_signed

__all__ = ["any_narrow", "apart", "together"]


def any_narrow(avals: Iterable[Aval]) -> bool:
    """Whether any of the types is one of integers of less than 8 bits."""
    return any(_is_narrow(aval.dtype) for aval in avals)


def apart(x: Array) -> Array | Complex:
    """The form in which an array is handed on: integers of at least 8 bits, the parts of complex numbers, other arrays as they are."""
    handed_on: Array | Complex = (
        x.astype(jnp.int8 if is_signed(x.dtype) else jnp.uint8) if _is_narrow(x.dtype) else parts(x)
    )
    return handed_on


def together(handed_on: Array | Complex, dtype: Dtype) -> Array:
    """The array of a dtype that was handed on `apart`."""
    x: Array = joined(handed_on)
    return x.astype(dtype) if _is_narrow(dtype) else x


def _is_narrow(dtype: Dtype) -> bool:
    return not is_extended_dtype(dtype) and is_integer(dtype) and jnp.iinfo(dtype).bits < 8
