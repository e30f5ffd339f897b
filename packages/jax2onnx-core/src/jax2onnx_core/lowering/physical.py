"""Physical types: the ONNX tensors that hold values of JAX's dtypes.

No ONNX type holds complex numbers or typed keys. The physical tensor of such a value has a trailing axis of components:
real and imaginary part, or the words of a key.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import jax
import numpy as np
from jax2onnx_graph import ir
from jax2onnx_graph.arrays import Array, Dtype
from jax2onnx_graph.build.attributes import element_type
from jax2onnx_graph.weights.absent import absent_weight

from jax2onnx_core import _compat
from jax2onnx_core.frontend._snapshots import ArraySnapshots
from jax2onnx_core.jax_types import Aval
from jax2onnx_core.jaxprs import AbsentWeight, Dims, is_static
from jax2onnx_core.plugins.errors import InputError

__all__ = [
    "component_count", "component_struct", "from_physical", "has_components", "is_token", "physical_array", "physical_type",
    "static_type", "weight_tensor",
]  # fmt: skip


_PARTS: dict[object, Dtype] = {
    np.dtype(np.complex64): np.dtype(np.float32),
    np.dtype(np.complex128): np.dtype(np.float64),
}


def has_components(dtype: Dtype) -> bool:
    """Whether the physical tensor of this dtype has a trailing axis of components."""
    return bool(_element(dtype)[1])


def is_token(aval: object) -> bool:
    """Whether an aval is that of a token, which orders effects and holds nothing."""
    return isinstance(aval, jax.extend.core.AbstractToken)


def physical_type(aval: Aval) -> tuple[Dtype, Dims]:
    """The NumPy dtype and the dimensions of the physical tensor of a value.

    Complex numbers have a trailing axis of 2 (real, imaginary), typed random keys the axes of their
    words; the float0 tangents of integers are bool. A token is empty.
    """
    if is_token(aval):
        return np.dtype(bool), (0,)
    dtype, components = _element(aval.dtype)
    return dtype, (*aval.shape, *components)


@functools.cache
def _element(dtype: Dtype) -> tuple[Dtype, Dims]:
    """The NumPy dtype and the dimensions of the components of one element."""
    if dtype in _PARTS:
        return _PARTS[dtype], (2,)
    if _compat.is_extended_dtype(dtype):
        words = _compat.key_physical_aval(dtype)
        return np.dtype(words.dtype), tuple(words.shape)
    return np.dtype(bool if dtype == jax.dtypes.float0 else dtype), ()


def static_type(aval: Aval) -> tuple[Dtype, tuple[int, ...]]:
    """The same for a value whose shape is numbers."""
    dtype, dims = physical_type(aval)
    return dtype, tuple(int(d) for d in dims if is_static(d))


def component_count(aval: Aval) -> int:
    """Number of components of each element of the value."""
    return math.prod(d for d in physical_type(aval)[1][len(aval.shape) :] if is_static(d))


def component_struct(aval: Aval) -> jax.ShapeDtypeStruct:
    """One component of the value, as something to trace with."""
    return jax.ShapeDtypeStruct(aval.shape, physical_type(aval)[0])


def weight_tensor(array: object, snapshots: ArraySnapshots) -> Array | ir.TensorProtocol:
    """The physical form of a weight: its array, or a tensor for one that is absent, or spread over several devices."""
    if isinstance(array, AbsentWeight):
        return absent_weight(array.name, *static_type(array.type))
    if isinstance(array, jax.Array) and not array.is_fully_addressable and not array.is_fully_replicated:
        raise InputError(
            f"A weight {array.dtype}{list(array.shape)} is spread over the processes of a cluster, of which this one has a part only "
            f"({array.sharding}). Gather it first, by jax.experimental.multihost_utils.process_allgather, or export with "
            "types in the place of the weights, and bind these when the model is saved."
        )
    if isinstance(array, jax.Array) and array.is_fully_replicated:  # each device has the whole array
        return physical_array(array if len(array.devices()) == 1 else array.addressable_shards[0].data)
    if isinstance(array, jax.Array) and len(array.devices()) > 1:
        dtype, dims = static_type(array)
        return ir.LazyTensor(lambda: ir.Tensor(_gathered(array)), element_type(dtype), ir.Shape(dims))
    physical = physical_array(array)
    return physical if isinstance(array, jax.Array) else snapshots.snapshot(array, physical)


def _gathered(array: jax.Array) -> Array:
    """The physical array of one whose parts are on several devices; `numpy.asarray` would keep it beside these parts."""
    plain = jax.random.key_data(array) if _compat.is_extended_dtype(array.dtype) else array
    whole = np.empty(plain.shape, plain.dtype)
    for shard in (s for s in plain.addressable_shards if s.replica_id == 0):
        whole[shard.index] = np.asarray(shard.data)
    return physical_array(whole)


def physical_array(array: Any) -> Array:
    """A (JAX) array in its physical form, without a copy where JAX allows it."""
    if _compat.is_extended_dtype(array.dtype):
        array = jax.random.key_data(array)
    result = np.asarray(array)
    if result.dtype in _PARTS:
        part = _PARTS[result.dtype]
        return np.ascontiguousarray(result).view(part).reshape(*result.shape, 2)
    return result.astype(bool) if result.dtype == jax.dtypes.float0 else result


def from_physical(array: Array, aval: Aval) -> Any:
    """The array of a value's own dtype, a JAX array for random keys, whose physical form is `array`."""
    if _compat.is_extended_dtype(aval.dtype):
        return _compat.wrap_key(array, aval)
    if has_components(aval.dtype):
        return np.ascontiguousarray(array, physical_type(aval)[0]).view(aval.dtype).reshape(array.shape[:-1])
    return array.astype(aval.dtype) if aval.dtype == jax.dtypes.float0 else array
