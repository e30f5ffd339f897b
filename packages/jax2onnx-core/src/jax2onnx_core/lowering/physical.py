"""How JAX's dtypes are carried in ONNX tensors."""

from __future__ import annotations

import functools
from typing import Any

import jax
import numpy as np
from jax2onnx_graph import ir

from jax2onnx_core import _compat
from jax2onnx_core.plugins.errors import ConversionError

__all__ = ["component_count", "is_packed", "onnx_dtype", "physical", "to_numpy"]

_PARTS: dict[Any, np.dtype[Any]] = {np.dtype(np.complex64): np.dtype(np.float32), np.dtype(np.complex128): np.dtype(np.float64)}


@functools.cache
def onnx_dtype(dtype: np.dtype[Any]) -> ir.DataType:
    """The ONNX element type of a NumPy (or ml_dtypes) dtype."""
    try:
        return ir.DataType.from_numpy(dtype)
    except TypeError:
        raise ConversionError(f"ONNX has no tensor element type for the dtype {dtype}.") from None


def is_packed(dtype: Any) -> bool:
    """Whether values of this dtype are carried with a trailing axis of components."""
    return dtype in _PARTS or _compat.is_extended_dtype(dtype)


def physical(aval: Any) -> tuple[np.dtype[Any], tuple[Any, ...]]:
    """The NumPy dtype and the dimensions of the tensor that carries a value of this aval.

    Complex numbers have a trailing axis of 2 (real, imaginary), typed random keys one of uint32
    words; the float0 tangents of integers are carried as bool.
    """
    if aval.dtype in _PARTS:
        return _PARTS[aval.dtype], (*aval.shape, 2)
    if _compat.is_extended_dtype(aval.dtype):
        carrier = _compat.key_physical_aval(aval)
        return np.dtype(carrier.dtype), tuple(carrier.shape)
    if aval.dtype == jax.dtypes.float0:
        return np.dtype(bool), tuple(aval.shape)
    return np.dtype(aval.dtype), tuple(aval.shape)


def component_count(aval: Any) -> int:
    """How many components a packed value has."""
    return int(physical(aval)[1][-1])


def to_numpy(array: Any) -> np.ndarray[Any, Any]:
    """A (JAX) array in its carried form, without a copy where JAX allows it."""
    if _compat.is_extended_dtype(array.dtype):
        array = jax.random.key_data(array)
    result = np.asarray(array)
    if result.dtype in _PARTS:
        part = _PARTS[result.dtype]
        return np.ascontiguousarray(result).view(part).reshape(*result.shape, 2)
    return result.astype(bool) if result.dtype == jax.dtypes.float0 else result
