"""How large an integer value can be: what may run on kernels that are right for small numbers only."""

from __future__ import annotations

import enum
from collections.abc import Iterable

import numpy as np
import onnx_ir as ir
from jax2onnx_graph.facts.operators import ValueUse, facts_of, value_use
from jax2onnx_graph.facts.schemas import value_inputs

from jax2onnx_onnxruntime.kernels import operator_key

__all__ = ["Magnitude", "Magnitudes"]

_SMALL = 64
"""Constants with more elements are not looked at."""

_UNBOUNDED = frozenset({"BitShift"})
"""Operators whose results on sizes may be large."""


class Magnitude(enum.Flag):
    """What is known about all elements of an integer value.

    `BYTE`: they came from a type of 8 bits or less. `INT32`: they fit int32. `SIZE`: they are sizes or
    positions, or arithmetic on those, and so far from the limits of int64 as memory is from 2⁶³ bytes.
    """

    UNKNOWN = 0
    BYTE = 1
    INT32 = 2
    SIZE = 4


_EVERY = Magnitude.BYTE | Magnitude.INT32 | Magnitude.SIZE


class Magnitudes:
    """The magnitudes of the integers of a model, noted node by node in topological order."""

    def __init__(self) -> None:
        self._known: dict[ir.Value, Magnitude] = {}

    def of(self, value: ir.Value) -> Magnitude:
        """What is known about a value."""
        known = self._known.get(value)
        if known is None:
            known = self._known[value] = self._of_constant(value)
        return known

    def of_all(self, values: Iterable[ir.Value | None]) -> Magnitude:
        """What is known about all of several values."""
        result = _EVERY
        for value in values:
            if value is not None:
                result &= self.of(value)
        return result

    def note(self, node: ir.Node) -> None:
        """Record what follows from a node for its results."""
        for index, output in enumerate(node.outputs):
            if output.dtype in (ir.DataType.INT64, ir.DataType.INT32):
                found = self._of_result(node, index)
                if found:
                    self._known[output] = found

    def _of_result(self, node: ir.Node, index: int) -> Magnitude:
        op_type, operands = node.op_type, node.inputs
        if index in facts_of(op_type).count_outputs:
            return Magnitude.INT32 | Magnitude.SIZE
        if op_type == "Constant" and "value" in node.attributes:
            return _of_array(node.attributes["value"].as_tensor())
        if op_type == "Cast" and operands[0] is not None:
            return self.of(operands[0]) | _of_type(operands[0].dtype)
        values = [operands[i] for i in value_inputs(op_type, len(operands), index)]
        if not values:
            return Magnitude.UNKNOWN
        use = value_use(operator_key(node))
        if use in (ValueUse.MOVE, ValueUse.ORDER):
            return self.of_all(values)
        is_arithmetic = use in (ValueUse.RING, ValueUse.VALUE) and op_type not in _UNBOUNDED
        if is_arithmetic and self.of_all(values) & Magnitude.SIZE:
            return Magnitude.INT32 | Magnitude.SIZE
        return Magnitude.UNKNOWN

    def _of_constant(self, value: ir.Value) -> Magnitude:
        tensor = value.const_value
        if tensor is None or not value.is_initializer() or value.is_graph_input():
            return Magnitude.UNKNOWN
        return _of_array(tensor)


def _of_type(dtype: ir.DataType | None) -> Magnitude:
    if dtype is None or not (dtype.is_integer() or dtype == ir.DataType.BOOL) or dtype.bitwidth > 32:
        return Magnitude.UNKNOWN
    if dtype.bitwidth <= 8:
        return Magnitude.BYTE | Magnitude.INT32
    return Magnitude.UNKNOWN if dtype == ir.DataType.UINT32 else Magnitude.INT32


def _of_array(tensor: ir.TensorProtocol) -> Magnitude:
    if tensor.size > _SMALL or not tensor.dtype.is_integer():
        return Magnitude.UNKNOWN
    array = tensor.numpy()
    low, high = (int(array.min()), int(array.max())) if array.size else (0, 0)
    if low >= -128 and high <= 255:
        return _EVERY
    info = np.iinfo(np.int32)
    return Magnitude.INT32 | Magnitude.SIZE if info.min <= low and high <= info.max else Magnitude.SIZE
