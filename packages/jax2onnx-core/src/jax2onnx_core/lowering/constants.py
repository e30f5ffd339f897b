"""Constants of a model: deduplicated small ones, weights as zero-copy views of JAX's buffers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from jax2onnx_graph import ir

from jax2onnx_core.lowering.physical import onnx_dtype, to_numpy

if TYPE_CHECKING:
    from jax2onnx_core.lowering.engine import Engine

__all__ = ["Constants"]

_SMALL = 1024
_LARGE = 16_384


class Constants:
    """Values without a producer that hold a tensor; those in use become initializers at the end."""

    def __init__(self, engine: Engine, weight_names: Mapping[int, str]) -> None:
        self._engine = engine
        self._weight_names = weight_names
        self._small: dict[tuple[Any, ...], ir.Value] = {}
        self._weights: dict[int, ir.Value] = {}
        self._large: dict[tuple[Any, ...], list[tuple[np.ndarray[Any, Any], ir.Value]]] = {}
        self._kept: list[Any] = []

    def constant(self, array: np.ndarray[Any, Any], name: str = "const") -> ir.Value:
        """The value that holds `array`; equal small arrays share one."""
        if array.nbytes > _SMALL:
            return self._new(array, name)
        key = (array.dtype, array.shape, array.tobytes())
        value = self._small.get(key)
        if value is None:
            value = self._small[key] = self._new(np.array(array), name)
        return value

    def literal(self, literal: Any) -> ir.Value:
        return self.constant(to_numpy(np.asarray(literal.val, literal.aval.dtype)))

    def weight(self, array: Any) -> ir.Value:
        """The value of an array that the traced function closed over; one array is one value."""
        value = self._weights.get(id(array))
        if value is None:
            name = self._weight_names.get(id(array))
            value = self._large_or_named(to_numpy(array), name)
            self._weights[id(array)] = value
            self._kept.append(array)
        return value

    def _large_or_named(self, data: np.ndarray[Any, Any], name: str | None) -> ir.Value:
        """Small weights with a name keep it, though another may be equal; large ones are stored once."""
        if data.nbytes <= _LARGE:
            return self._new(data, name) if name is not None else self.constant(data)
        alike = self._large.setdefault((data.dtype, data.shape, _sample(data)), [])
        for other, value in alike:
            if np.array_equal(_bytes(other), _bytes(data)):
                return value
        value = self._new(data, name or "const")
        alike.append((data, value))
        return value

    def weight_values(self) -> list[ir.Value]:
        """The values of all weights so far, in use or not."""
        return list(self._weights.values())

    def _new(self, array: np.ndarray[Any, Any], name: str) -> ir.Value:
        name = self._engine.names.value(name)
        dtype = onnx_dtype(array.dtype)
        value = ir.Value(name=name, type=ir.TensorType(dtype), const_value=ir.Tensor(array, dtype, name=name))
        self._engine.set_dims(value, array.shape)
        return value


def _bytes(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _sample(array: np.ndarray[Any, Any]) -> bytes:
    """A few bytes by which most different arrays differ; a hash of all weights would take seconds."""
    flat = _bytes(array)
    return flat[:: max(1, flat.size // 64)].tobytes()
