"""Questions about dtypes; NumPy's, JAX's and those of `ml_dtypes` (bfloat16, float8, int4, …) are all answered."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax2onnx_graph.build.builder import DtypeLike

__all__ = [
    "Dtype",
    "is_bool",
    "is_float",
    "is_float_array",
    "is_integer",
    "is_signed",
    "of_one_float_type",
    "real_dtype",
]

Dtype = np.dtype[Any]


def is_float(dtype: DtypeLike) -> bool:
    """Whether the dtype is a real floating-point one."""
    return "float" in _name(np.dtype(dtype))


def is_integer(dtype: DtypeLike) -> bool:
    """Whether the dtype is a signed or unsigned integer one (bool is not)."""
    return "int" in _name(np.dtype(dtype))


def is_signed(dtype: DtypeLike) -> bool:
    """Whether the dtype is an integer one with negative numbers."""
    return _name(np.dtype(dtype)).startswith("int")


@functools.cache
def _name(dtype: Dtype) -> str:
    """The name of a dtype, which NumPy puts together anew each time."""
    return dtype.name


def is_bool(dtype: DtypeLike) -> bool:
    """Whether the dtype is bool."""
    return np.dtype(dtype) == np.bool_


def real_dtype(dtype: DtypeLike) -> Dtype:
    """The dtype of the real and imaginary parts: float32 for complex64, float64 for complex128, a real dtype itself."""
    return np.zeros((), dtype).real.dtype


def is_float_array(*arrays: object) -> bool:
    """Whether all arguments are arrays (of JAX, traced or not, or of NumPy) of real floating-point dtypes."""
    return all(isinstance(x, jax.Array | np.ndarray) and jnp.issubdtype(x.dtype, jnp.floating) for x in arrays)


def of_one_float_type(*arrays: jax.Array | None, dtype: DtypeLike | None = None) -> bool:
    """Whether the arrays that are not None have one floating-point dtype, which is `dtype` if that is given."""
    present = [x for x in arrays if x is not None]
    dtypes = {x.dtype for x in present} | (set() if dtype is None else {np.dtype(dtype)})
    return is_float_array(*present) and len(dtypes) == 1
