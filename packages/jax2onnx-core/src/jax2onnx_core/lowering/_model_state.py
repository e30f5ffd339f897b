"""`ModelState`: what the graphs of one model under construction share."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from jax2onnx_graph import ir
from jax2onnx_graph.arrays import Array, Dtype
from jax2onnx_graph.build.attributes import element_type
from jax2onnx_graph.build.builder import Value
from jax2onnx_graph.build.names import Names
from jax2onnx_graph.facts.dims import Dim, Dims, SpecializedDim, SymbolicDim, Term, are_plain, is_static
from jax2onnx_graph.metadata import DIMS_KEY
from jax2onnx_graph.targets import Target

from jax2onnx_core._array_identity import array_identity
from jax2onnx_core.lowering._constants import ConstantPool
from jax2onnx_core.lowering._findings import Findings
from jax2onnx_core.lowering.definitions import Definition

__all__ = ["DimNotation", "ModelState"]


@dataclasses.dataclass(frozen=True)
class DimNotation:
    """Functions that read and show dimensions.

    Attributes:
      label: the text that names a dimension in the model.
      terms: what a symbolic dimension is the sum of.
      bounds: the least and the greatest value that a dimension can have.
      from_data: the symbols in dimensions whose values an equation gives.
    """

    label: Callable[[Dim], str]
    terms: Callable[[SymbolicDim], Sequence[Term]]
    bounds: Callable[[Dim], tuple[float, float]]
    from_data: Callable[[Sequence[Dim]], Sequence[str]]


class ModelState:
    """The names, constants and dimensions of one model, and what it is made for.

    Attributes:
      opset: the version of the standard operators.
      target: the runtime that the model is for.
      notation: how dimensions are read and shown.
      inline_functions: whether the bodies of functions stand in the place of their calls.
      names: the names that are taken.
      findings: what rules found of operations, once for all that are equal.
      positive: for each label of a dimension, whether the dimension is at least 1 for all values of its symbols.

    `weight_names` has the names of weights by their `array_identity`; `physical` makes the array of a tensor from a weight.
    """

    def __init__(
        self, opset: int, target: Target, notation: DimNotation, weight_names: Mapping[Hashable, str],
        physical: Callable[[Any], Array | ir.TensorProtocol], *, inline_functions: bool = False,
    ) -> None:  # fmt: skip
        self.opset, self.target, self.notation = opset, target, notation
        self.inline_functions = inline_functions
        self.names = Names()
        self.findings = Findings()
        self.positive: dict[str, bool] = {}
        self._pool = ConstantPool(self.names)
        self._dims: dict[Value, Dims] = {}
        self._definitions: dict[Value, Definition | None] = {}
        self._weight_names, self._physical = weight_names, physical
        self._weights: dict[Hashable, Value] = {}
        self._named: set[str] = set()
        self._kept: list[Any] = []  # what the identities in `_weights` are of

    def dims(self, value: Value) -> Dims | None:
        """The dimensions of a value, ints or symbolic ones; None if nothing is known."""
        found = self._dims.get(value)
        if found is None and value.const_value is not None:
            return tuple(value.const_value.shape.numpy())
        return found

    def set_dims(self, value: Value, dims: Sequence[Dim]) -> None:
        """Remember the dimensions of a value, and label it with them."""
        self._dims[value] = dims = tuple(dims)
        if are_plain(dims):
            value.shape = ir.Shape(dims)
            return
        value.shape = ir.Shape([int(d) if is_static(d) else self._label(d) for d in dims])
        if any(isinstance(d, SpecializedDim) for d in dims):
            value.metadata_props[DIMS_KEY] = ", ".join(self.notation.label(d) for d in dims)

    def _label(self, dim: Dim) -> str:
        """The label of a dimension, of which it is noted whether it can be 0."""
        label = self.notation.label(dim)
        if label not in self.positive:
            self.positive[label] = self.notation.bounds(dim)[0] > 0
        return label

    def definition(self, value: Value) -> Definition | None:
        """The equation whose result a value is; None where it is of no equation."""
        return self._definitions.get(value)

    def define(self, value: Value, definition: Definition | None) -> None:
        """Say whose result a value is, None for no equation's. It is said once, so that no value follows from itself."""
        self._definitions.setdefault(value, definition)

    def new_value(self, name: str, dtype: Dtype, dims: Sequence[Dim]) -> Value:
        """A named value without a producer: an input of some graph."""
        value = Value(name=self.names.unique(name), type=ir.TensorType(element_type(dtype)))
        self.set_dims(value, dims)
        return value

    def constant(self, array: Array, name: str = "const") -> Value:
        """The value that holds `array`; equal small arrays share one."""
        return self._pool.constant(array, name)

    def tensor(self, tensor: ir.TensorProtocol, name: str) -> Value:
        """The value of a tensor whose numbers are not at hand."""
        return self._pool.tensor(tensor, name)

    def weight(self, array: Any, other_name: Callable[[], str] = lambda: "const") -> Value:
        """The value of an array that the traced function closed over, or of an absent weight; one array is one value.

        Args:
          array: the array, or what stands for it.
          other_name: the name of a constant that is no weight.
        """
        identity = array_identity(array)
        value = self._weights.get(identity)
        if value is None:
            name, tensor = self._weight_names.get(identity), self._physical(array)
            if isinstance(tensor, np.ndarray):
                value = self._pool.weight(tensor, name, other_name)
            else:
                name = name or tensor.name
                value = self.tensor(tensor, name or "const")
            self._weights[identity] = value
            self._kept.append(array)
            if name is not None:
                self._named.add(value.name or "")
        return value

    def transposed(self, value: Value) -> Value | None:
        """The constant of which the matrix `value` is the transpose, where that is known without comparing numbers."""
        return self._pool.transposed(value)

    def weight_names(self) -> set[str]:
        """The names of all named weights so far, in use or not."""
        return self._named
