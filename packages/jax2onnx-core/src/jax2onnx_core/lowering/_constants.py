"""`ConstantPool`: the constants of a model under construction, each stored once."""

from __future__ import annotations

from collections.abc import Callable, Hashable

import numpy as np
from jax2onnx_graph import ir
from jax2onnx_graph.arrays import Array
from jax2onnx_graph.build.attributes import element_type
from jax2onnx_graph.build.names import Names
from jax2onnx_graph.fingerprints import array_fingerprint

from jax2onnx_core._array_identity import array_identity

__all__ = ["ConstantPool"]


# Constants of up to this many bytes are found by their content; larger ones are compared with those that look alike.
_SMALL = 1024
# Weights with a name, beyond this many bytes, are compared with each other, so that equal ones are stored once.
_LARGE = 16_384


class ConstantPool:
    """Values without a producer that hold a tensor; those in use become initializers at the end."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._small: dict[Hashable, ir.Value] = {}
        self._large: dict[tuple[object, ...], list[tuple[Array, ir.Value]]] = {}
        self._matrices: dict[Hashable, ir.Value] = {}

    def constant(self, array: Array, name: str = "const") -> ir.Value:
        """The value that holds `array`; equal arrays share one, small ones those of their name."""
        if array.nbytes > _SMALL:
            return self._stored_once(array, name)
        key = name, array_fingerprint(array)
        value = self._small.get(key)
        if value is None:
            value = self._small[key] = self._new(np.array(array), name)
        return value

    def weight(self, array: Array, name: str | None, other_name: Callable[[], str]) -> ir.Value:
        """The value of a weight: a small one with a name keeps it, though another may be equal; large ones, and
        those without a name, are stored once.
        """
        if name is None and array.nbytes <= _SMALL:
            return self.constant(array)
        if name is not None and array.nbytes <= _LARGE:
            return self._new(array, name)
        return self._stored_once(array, name or other_name())

    def tensor(self, tensor: ir.TensorProtocol, name: str) -> ir.Value:
        """The value of a tensor whose numbers are not at hand to be compared."""
        shape = ir.Shape(tensor.shape.numpy())
        return ir.Value(
            name=self._names.unique(name), type=ir.TensorType(tensor.dtype), shape=shape, const_value=tensor
        )

    def transposed(self, value: ir.Value) -> ir.Value | None:
        """The constant that the matrix `value` is a transposed view of."""
        matrix = value.const_value
        if not isinstance(matrix, ir.Tensor) or not isinstance(matrix.raw, np.ndarray):
            return None
        return self._matrices.get(array_identity(matrix.raw.T))

    def _stored_once(self, array: Array, name: str) -> ir.Value:
        alike = self._large.setdefault((array.dtype, array.shape, _sample(array)), [])
        for other, value in alike:
            if np.array_equal(_bytes(other), _bytes(array)):
                return value
        value = self._new(array, name)
        alike.append((array, value))
        return value

    def _new(self, array: Array, name: str) -> ir.Value:
        name = self._names.unique(name)
        dtype = element_type(array.dtype)
        tensor = ir.Tensor(array, dtype, name=name)
        value = ir.Value(name=name, type=ir.TensorType(dtype), shape=ir.Shape(array.shape), const_value=tensor)
        if array.ndim == 2:
            self._matrices.setdefault(array_identity(array), value)
        return value


def _bytes(array: Array) -> Array:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _sample(array: Array) -> bytes:
    """The bytes of a few elements, by which most different arrays differ; a hash of all weights would take seconds."""
    return array.flat[:: max(1, array.size // 64)].tobytes()
