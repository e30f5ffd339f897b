"""One input specification: what users write for an argument, read as shapes and dtypes."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any, TypeGuard

import jax
import numpy as np
from jax.tree_util import keystr
from jax2onnx_graph.arrays import Dtype, number_array

from jax2onnx_core import _compat, _compat_dims, _compat_meshes
from jax2onnx_core.jax_types import PyTree
from jax2onnx_core.jaxprs import Dim
from jax2onnx_core.plugins.errors import InputError

__all__ = ["Spec", "is_dimension", "read_spec"]


#: A shape as users write it: numbers, names or expressions, dimensions of JAX's, None for a dynamic one.
Shape = tuple[int | str | Dim | None, ...]

_DTYPE_NAME = re.compile(r"(b?float|u?int|complex)\d\w*|bool")
# Beside a shape, these are further specifications in one pytree, not its dtype.
_ARRAYS = (np.ndarray, jax.Array, jax.ShapeDtypeStruct)
_SPECS = (Mapping, list, tuple, *_ARRAYS)
_STATIC = "An argument that is to be fixed in the model is not listed, but bound: functools.partial(fn, name=value)."


@dataclasses.dataclass(frozen=True)
class Spec:
    """A shape and a dtype, and `where` in the call of `to_onnx` they stand.

    `is_explicit` says that the dtype was asked for, not the one that an example happens to have; `sharding` is a sharding
    that is part of the type.
    """

    shape: Shape
    dtype: Dtype
    where: str
    weak_type: bool = False
    is_explicit: bool = False
    sharding: jax.sharding.NamedSharding | None = None


def read_spec(spec: PyTree, where: str) -> PyTree:
    """The pytree of `Spec` that `spec` stands for; one of arrays alone is an example, and stays. Raises InputError."""
    _check_dtype_is_apart(spec, where)
    if _is_shape(spec):
        return Spec(spec, _compat.default_float(), where)
    if isinstance(spec, tuple) and len(spec) == 2 and _is_shape(spec[0]) and not isinstance(spec[1], _SPECS):
        if not _is_dtype(spec[1]):
            raise InputError(f"{where}: {spec[1]!r} is not a dtype; write for instance ((3, 4), 'int32').")
        return Spec(
            spec[0], _as_dtype(spec[1]), where, is_explicit=all(spec[1] is not kind for kind in (int, float, complex))
        )
    if isinstance(spec, (np.ndarray, np.generic)):
        return Spec(tuple(spec.shape), spec.dtype, where)
    if isinstance(spec, (jax.ShapeDtypeStruct, jax.Array)):
        aval = jax.typeof(spec) if isinstance(spec, jax.Array) else spec
        sharding = _compat_meshes.typed_sharding(aval.sharding)
        return Spec(tuple(aval.shape), aval.dtype, where, aval.weak_type, is_explicit=aval is spec, sharding=sharding)
    if isinstance(spec, (bool, int, float, complex)):
        return _of_number(spec, where)
    if isinstance(spec, (str, bytes)):
        raise InputError(f"{where}: {spec!r} is not a shape; a shape is a tuple such as ('B', 4). {_STATIC}")
    return _read_tree(spec, where)


def _read_tree(spec: PyTree, where: str) -> PyTree:
    # One level at a time, so that tuples which are shapes are seen before JAX takes them apart.
    try:
        leaves, tree = jax.tree_util.tree_flatten_with_path(spec, is_leaf=lambda x: x is not spec)
    except ValueError as error:
        raise InputError(
            f"{where}: the keys of the dict cannot be sorted, so that JAX has no order of them: {error}"
        ) from error
    if len(leaves) == 1 and leaves[0][1] is spec:
        raise InputError(
            f"{where}: {spec!r} is neither a shape, an array, nor a pytree of them. Write a shape such as "
            f"('B', 4), a pair (shape, dtype), a jax.ShapeDtypeStruct, or an example array. {_STATIC}"
        )
    if _is_example(spec):
        return spec
    return jax.tree_util.tree_unflatten(tree, [read_spec(leaf, where + keystr(path)) for path, leaf in leaves])


def _is_example(spec: PyTree) -> bool:
    """Whether a pytree, such as a module or its parameters, holds arrays only: its tuples, of None and empty ones, are no shapes."""
    leaves = jax.tree_util.tree_leaves(spec)
    return bool(leaves) and all(isinstance(leaf, _ARRAYS) for leaf in leaves)


def _of_number(number: complex, where: str) -> Spec:
    """The specification of a Python number: a scalar of the weak type that JAX gives it."""
    dtype = _compat.canonical_dtype(np.dtype(type(number)))
    try:
        number_array(number, dtype)
    except ValueError as error:
        raise InputError(f"{where}: {error} 64-bit types are enabled by x64=True.") from None
    return Spec((), dtype, where, weak_type=True)


def _is_shape(spec: object) -> TypeGuard[Shape]:
    # A named tuple, empty ones among them, is a node of a pytree.
    return type(spec) is tuple and all(map(is_dimension, spec))


def is_dimension(value: object) -> bool:
    is_number = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    return value is None or isinstance(value, str) or is_number or _compat_dims.is_symbolic_dim(value)


def _check_dtype_is_apart(spec: object, where: str) -> None:
    """Raise if a shape has a dtype among its dimensions."""
    if type(spec) is not tuple:
        return
    dims = tuple(d for d in spec if not _names_a_dtype(d))
    dtypes = [d for d in spec if _names_a_dtype(d)]
    if dtypes and all(map(is_dimension, dims)):
        pair = dims, str(_as_dtype(dtypes[0]))
        raise InputError(f"{where}: the shape {spec} has a dtype among its dimensions; write {pair}.")


def _names_a_dtype(value: object) -> bool:
    """Whether a value among dimensions is meant as a dtype; a name such as "b" or "half" is that of a dimension."""
    if isinstance(value, str):
        return _DTYPE_NAME.fullmatch(value) is not None
    return isinstance(value, (type, np.dtype)) and _is_dtype(value)


def _is_dtype(value: object) -> bool:
    if not isinstance(value, (str, type, np.dtype)) and not _compat.is_extended_dtype(value):
        return False
    try:
        _as_dtype(value)
    except TypeError:
        return False
    return True


def _as_dtype(value: Any) -> Dtype:
    if _compat.is_extended_dtype(value):
        return value
    return jax.numpy.dtype(value)
