"""`Magnitudes`: bounds of the integers of a model, some of which are small enough for kernels that are right for those only."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping

from jax2onnx_graph._ir import ir
from jax2onnx_graph.facts.operators import ValueUse, facts_of, value_use
from jax2onnx_graph.facts.schemas import value_inputs
from jax2onnx_graph.legalise.kernels import operator_key
from jax2onnx_graph.weights.absent import known_array

__all__ = ["Magnitude", "Magnitudes"]

_SMALL = 64
"""Constants with more elements are not looked at."""

_LARGEST_SIZE = 1 << 28
"""No axis is taken to be longer."""


@dataclasses.dataclass(frozen=True)
class Magnitude:
    """Bounds that hold for all elements of an integer value; by default those of 64 bits.

    Attributes:
      limit: they are between -limit - 1 and limit.
      is_size: they are sizes or positions, or arithmetic on those and on numbers of int32, and so far from the limits
        of int64 as memory is from 2⁶³ bytes.
    """

    limit: int = (1 << 64) - 1
    is_size: bool = False

    @property
    def fits_byte(self) -> bool:
        """Whether a signed or an unsigned byte could hold the numbers."""
        return self.limit < 1 << 8

    @property
    def fits_int32(self) -> bool:
        """Whether int32 could hold the numbers."""
        return self.limit < 1 << 31


_UNKNOWN = Magnitude()
_SIZE = Magnitude(_LARGEST_SIZE, True)


def _sum(limits: Iterable[int]) -> int:
    return sum(limit + 1 for limit in limits) - 1


def _largest(limits: Iterable[int]) -> int:
    return max(limits) + 1  # the negative of the least number


#: The limit of what an operator computes from operands with these limits; what is not listed may be of any size.
_LIMITS: Mapping[str, Callable[[Iterable[int]], int]] = {
    "Add": _sum, "Sub": _sum, "Sum": _sum, "Mul": lambda limits: math.prod(limit + 1 for limit in limits),
    "Neg": _largest, "Abs": _largest, "Div": _largest, "Mod": _largest, "Range": _largest, "Sign": _largest,
}  # fmt: skip

_UNBOUNDED = frozenset({"BitShift"})
"""Operators whose results on sizes may be large."""


class Magnitudes:
    """The magnitudes of the integers of a model, noted node by node in topological order."""

    def __init__(self) -> None:
        self._known: dict[ir.Value, Magnitude] = {}

    def magnitude(self, value: ir.Value) -> Magnitude:
        """The bounds of a value."""
        known = self._known.get(value)
        if known is None:
            known = self._known[value] = self._of_constant(value)
        return known

    def common_magnitude(self, values: Iterable[ir.Value | None]) -> Magnitude:
        """The bounds that hold for all of several values."""
        found = [self.magnitude(value) for value in values if value is not None]
        return Magnitude(max((m.limit for m in found), default=0), all(m.is_size for m in found))

    def note(self, node: ir.Node) -> None:
        """Record the bounds of the results of a node."""
        for index, output in enumerate(node.outputs):
            if output.dtype in (ir.DataType.INT64, ir.DataType.INT32):
                found = self._of_result(node, index)
                if found != _UNKNOWN:
                    self._known[output] = found

    def _of_result(self, node: ir.Node, index: int) -> Magnitude:
        op_type, operands = node.op_type, node.inputs
        if index in facts_of(op_type).count_outputs:
            return _SIZE
        if op_type == "Constant" and "value" in node.attributes:
            return _of_array(node.attributes["value"].as_tensor())
        if op_type == "Cast" and operands[0] is not None:
            return _cast(self.magnitude(operands[0]), operands[0].dtype, node.outputs[0].dtype)
        values = [operands[i] for i in value_inputs(op_type, len(operands), index)]
        if not values:
            return _UNKNOWN
        use, known = value_use(operator_key(node)), self.common_magnitude(values)
        if use in (ValueUse.MOVE, ValueUse.ORDER):
            return known
        if use not in (ValueUse.RING, ValueUse.VALUE) or op_type in _UNBOUNDED or not known.is_size:
            return _UNKNOWN
        limit = _LIMITS.get(op_type)
        limits = [self.magnitude(value).limit for value in values if value is not None]
        return Magnitude(_UNKNOWN.limit if limit is None else limit(limits), True)

    def _of_constant(self, value: ir.Value) -> Magnitude:
        tensor = value.const_value
        if tensor is None or not value.is_initializer() or value.is_graph_input():
            return _UNKNOWN
        return _of_array(tensor)


def _cast(known: Magnitude, source: ir.DataType | None, target: ir.DataType | None) -> Magnitude:
    """The bounds after a Cast; numbers that do not fit wrap around."""
    limit, largest = min(known.limit, _limit_of_type(source)), _limit_of_type(target)
    return Magnitude(limit, known.is_size) if limit <= largest else Magnitude(largest)


def _limit_of_type(dtype: ir.DataType | None) -> int:
    if dtype is None or not (dtype.is_integer() or dtype == ir.DataType.BOOL):
        return _UNKNOWN.limit
    bits = 1 if dtype == ir.DataType.BOOL else dtype.bitwidth - dtype.is_signed()
    return (1 << bits) - 1


def _of_array(tensor: ir.TensorProtocol) -> Magnitude:
    array = known_array(tensor) if tensor.size <= _SMALL and tensor.dtype.is_integer() else None
    if array is None:
        return _UNKNOWN
    low, high = (int(array.min()), int(array.max())) if array.size else (0, 0)
    limit = max(high, -low - 1)
    return Magnitude(limit, limit < 1 << 31)
