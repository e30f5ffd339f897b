"""`AbsentTensor`: a constant of known type and shape whose numbers are read when the model is saved."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from jax2onnx_graph._ir import ir
from jax2onnx_graph.arrays import Array, Dtype
from jax2onnx_graph.errors import WeightsError

__all__ = ["AbsentTensor", "StreamedTensor", "WeightType", "Weights", "absent_weight", "computed", "known_array"]

_COMPUTED_NOW = 1024  # elements of a constant that is computed at once


class WeightType(NamedTuple):
    """The element type and the shape of a weight."""

    dtype: Dtype
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"


class Weights:
    """The numbers of weights, read by name."""

    def array(self, name: str) -> Array:
        """The array of a weight."""
        raise NotImplementedError

    def blocks(self, name: str) -> Iterator[Array]:
        """The same in blocks along the first axis, as few of them in memory at a time as possible."""
        yield self.array(name)


class AbsentTensor(ir.LazyTensor):
    """A weight that is not there yet, or a constant that is computed from such weights.

    Attributes:
      weights: the names of these weights.
      read: its array, where the numbers come from.
    """

    def __init__(
        self, dtype: ir.DataType, shape: Sequence[int], weights: Sequence[str], read: Callable[[Weights], Array], *,
        is_weight: bool = False, name: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__(self._fail, dtype, ir.Shape(shape), name=name)
        self.weights = tuple(weights)
        self.read = read
        self._is_weight = is_weight

    def present(self, weights: Weights) -> ir.TensorProtocol:
        """The tensor with its numbers; those of a large one are read each time that they are asked for."""
        shape = ir.Shape(self.shape.numpy())
        if math.prod(self.shape.numpy()) <= _COMPUTED_NOW:
            return ir.Tensor(
                np.ascontiguousarray(self.read(weights)).reshape(self.shape.numpy()), self.dtype, name=self.name
            )
        if self._is_weight:
            return StreamedTensor(weights, self.weights[0], self.dtype, shape, name=self.name)
        return ir.LazyTensor(lambda: ir.Tensor(self.read(weights), self.dtype), self.dtype, shape, name=self.name)

    def _fail(self) -> ir.TensorProtocol:
        raise WeightsError(
            f"The weights {', '.join(self.weights)} are absent: the program was exported from a model without arrays. Give "
            "them by program.with_weights(source), or by program.save(path, weights=source)."
        )


class StreamedTensor(ir.LazyTensor):
    """A weight that is read when it is asked for, in blocks by those who can use them."""

    def __init__(self, weights: Weights, weight: str, dtype: ir.DataType, shape: ir.Shape, name: str | None) -> None:
        super().__init__(lambda: ir.Tensor(weights.array(weight), dtype), dtype, shape, name=name)
        self._weights, self._weight = weights, weight

    def blocks(self) -> Iterator[Array]:
        """Its array in blocks along the first axis."""
        return self._weights.blocks(self._weight)


def absent_weight(name: str, dtype: Dtype, shape: Sequence[int]) -> AbsentTensor:
    """A tensor for a weight that is given when the model is saved or run.

    Args:
      name: the name under which the weight is read.
      dtype: its element type.
      shape: its shape.
    """
    return AbsentTensor(
        ir.DataType.from_numpy(dtype), shape, [name], lambda weights: weights.array(name), is_weight=True, name=name
    )


def computed(
    function: Callable[..., Array], tensors: Sequence[ir.TensorProtocol], dtype: ir.DataType, shape: Sequence[int]
) -> ir.TensorProtocol:
    """The tensor that a function computes of others: at once if it is small, else when it is read.

    Args:
      function: takes the arrays of `tensors` and returns an array of `shape`.
      tensors: its operands; where one is an `AbsentTensor`, so is the result.
      dtype: the element type of the result.
      shape: the shape of the result.
    """
    absent = [tensor for tensor in tensors if isinstance(tensor, AbsentTensor)]

    def now() -> ir.TensorProtocol:
        return ir.Tensor(np.ascontiguousarray(function(*(t.numpy() for t in tensors))).reshape(shape), dtype)

    if not absent:
        return now() if math.prod(shape) <= _COMPUTED_NOW else ir.LazyTensor(now, dtype, ir.Shape(shape))

    def read(weights: Weights) -> Array:
        return np.asarray(function(*(t.read(weights) if isinstance(t, AbsentTensor) else t.numpy() for t in tensors)))

    return AbsentTensor(dtype, shape, [*dict.fromkeys(name for tensor in absent for name in tensor.weights)], read)


def known_array(tensor: ir.TensorProtocol | None) -> Array | None:
    """The array of a tensor whose numbers are there."""
    return None if tensor is None or isinstance(tensor, AbsentTensor) else tensor.numpy()
