"""Abstract values, dtypes and random keys, and the differences between pytrees."""

from __future__ import annotations

import functools

import jax
import numpy as np
from jax._src import core as _core
from jax._src import dtypes as _dtypes
from jax._src import tree_util as _tree_util
from jax._src.lax import lax as _lax
from jax2onnx_graph.arrays import Array, Dtype
from jax2onnx_graph.facts.dims import Dims, is_static

from jax2onnx_core.jax_types import Aval, TraceableAval

__all__ = [
    "ShapedArray",
    "as_weak",
    "canonical_dtype",
    "default_float",
    "is_extended_dtype",
    "key_physical_aval",
    "plain_shape",
    "random_keys",
    "traceable_dtype",
    "tree_differences",
    "with_exact_shape",
    "wrap_key",
]

ShapedArray = _core.ShapedArray
tree_differences = _tree_util.equality_errors_pytreedef


def key_physical_aval(dtype: Dtype) -> Aval:
    """The array that carries one typed random key (or one element of any extended dtype)."""
    return _core.physical_aval(_core.ShapedArray((), dtype))


def wrap_key(data: Array, aval: _core.ShapedArray) -> jax.Array:
    """Key data as a typed key array of the aval's implementation."""
    return jax.random.wrap_key_data(data, impl=aval.dtype._impl)


def random_keys(seed: int, count: int, aval: _core.ShapedArray) -> jax.Array:
    """Different typed keys [count] of the aval's implementation."""
    return jax.random.split(jax.random.key(seed, impl=aval.dtype._impl), max(count, 1))[:count]


def with_exact_shape(aval: TraceableAval, shape: Dims) -> TraceableAval:
    """The aval with these very dimensions: JAX would make plain ints of subclasses of int."""
    if shape == tuple(aval.shape) and all(type(a) is type(b) for a, b in zip(shape, aval.shape, strict=True)):
        return aval
    plain = plain_shape(shape)
    # JAX keeps one object for all equal avals, so the one that remembers symbols has to be a copy.
    result = _unshared(aval.update(shape=plain))
    object.__setattr__(result, "shape", shape)
    return result


def plain_shape(shape: Dims) -> Dims:
    """The dimensions without what subclasses of int remember."""
    return tuple(int(d) if is_static(d) else d for d in shape)


def _unshared(aval: TraceableAval) -> TraceableAval:
    copy = object.__new__(type(aval))
    for cls in type(aval).__mro__:
        for slot in vars(cls).get("__slots__", ()):
            if slot not in ("__weakref__", "__dict__"):
                object.__setattr__(copy, slot, getattr(aval, slot))
    if "__dict__" in dir(aval):
        for name, value in vars(aval).items():
            object.__setattr__(copy, name, value)
    return copy


@functools.cache
def is_extended_dtype(dtype: object) -> bool:
    return bool(jax.numpy.issubdtype(dtype, jax.dtypes.extended))


def default_float() -> Dtype:
    return np.dtype(_dtypes.canonicalize_dtype(np.float64))


def canonical_dtype(dtype: Dtype) -> Dtype:
    return _dtypes.canonicalize_dtype(dtype, allow_extended_dtype=True)


def traceable_dtype(dtype: Dtype) -> Dtype:
    """The dtype that JAX traces with in place of `dtype`; TypeError or ValueError where it has none."""
    canonical = canonical_dtype(dtype)
    return canonical if is_extended_dtype(canonical) else jax.numpy.promote_types(canonical, canonical)


def as_weak(array: jax.Array) -> jax.Array:
    """The array, weakly typed as Python's numbers are."""
    return _lax._convert_element_type(array, weak_type=True)
