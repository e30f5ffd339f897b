"""`KernelTable`: the element types that the kernels of a runtime were measured to take; the type variables of operators."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
import onnx

from jax2onnx_graph._ir import ir
from jax2onnx_graph.arrays import Dtype
from jax2onnx_graph.facts.operators import facts_of, split_reduction

__all__ = ["KernelTable", "Signature", "bindings", "element_type", "operator_key", "signature"]

#: Operator → opset from which on it holds → type variable → short names of element types.
Kernels = Mapping[str, Mapping[str, Mapping[str, str]]]


class Signature(NamedTuple):
    """The type variables of an operator at some opset.

    `inputs` and `outputs` name the type variable (or the fixed type) of each formal parameter; the last
    one repeats where the operator is variadic. `main` is the variable that `supports` asks about.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    floating: frozenset[str]
    main: str

    def input(self, index: int) -> str:
        """The type variable of the operand at `index`."""
        return self.inputs[min(index, len(self.inputs) - 1)]

    def output(self, index: int) -> str:
        """The type variable of the result at `index`."""
        return self.outputs[min(index, len(self.outputs) - 1)]


def element_type(dtype: Dtype) -> ir.DataType | None:
    """The ONNX element type of a NumPy (or ml_dtypes) dtype, or None where ONNX has none."""
    try:
        return ir.DataType.from_numpy(np.dtype(dtype))
    except TypeError:
        return None


def operator_key(node: ir.Node) -> str:
    """The name under which the kernels of a node are measured: `"ScatterND_add"` for one with a reduction."""
    if not facts_of(node.op_type).has_reduction:
        return node.op_type
    reduction = node.attributes.get_string("reduction", "none")
    return node.op_type if reduction == "none" else f"{node.op_type}_{reduction}"


@functools.cache
def signature(key: str, opset: int) -> Signature | None:
    """The signature of a standard operator at an opset; None where there is no such operator."""
    op_type, _ = split_reduction(key)
    try:
        schema = onnx.defs.get_schema(op_type, opset, "")
    except onnx.defs.SchemaError:
        return None
    inputs = tuple(p.type_str for p in schema.inputs)
    outputs = tuple(p.type_str for p in schema.outputs)
    floats = {"tensor(float)", "tensor(float16)", "tensor(double)", "tensor(bfloat16)"}
    floating = {c.type_param_str for c in schema.type_constraints if floats & set(c.allowed_type_strs)}
    main = facts_of(op_type).element_type or (inputs or outputs)[0]
    return Signature(inputs, outputs, frozenset(floating), main)


def bindings(node: ir.Node, found: Signature) -> dict[str, ir.DataType]:
    """Type variable → element type, from the operands, then from the results."""
    types: dict[str, ir.DataType] = {}
    for index, value in enumerate(node.inputs):
        if value is not None and value.dtype is not None:
            types.setdefault(found.input(index), value.dtype)
    for index, output in enumerate(node.outputs):
        if output.dtype is not None:
            types.setdefault(found.output(index), output.dtype)
    return types


class KernelTable:
    """The element types with which a runtime was measured to compute operators.

    Args:
      kernels: operator, with its reduction where it has one ("ScatterND_add") → opset → type variable → short names of element
        types. An opset stands for itself and those after it, up to the next one listed.
      narrow: integer types of which it computes small numbers only, or not everywhere; they carry no other type.
    """

    def __init__(self, kernels: Kernels, narrow: frozenset[ir.DataType] = frozenset()) -> None:
        self._kernels, self.narrow = kernels, narrow
        self._types: dict[tuple[str, str, int], frozenset[ir.DataType] | None] = {}

    def has(self, key: str) -> bool:
        """Whether the table says anything about the operator `key`."""
        return key in self._kernels

    def types(self, key: str, variable: str, opset: int) -> frozenset[ir.DataType] | None:
        """The element types with which an operator has a kernel.

        Args:
          key: the operator, with its reduction where it has one ("ScatterND_add").
          variable: the type variable that is bound to the element type.
          opset: the version of the standard operators.

        Returns:
          The element types; None where nothing was measured.
        """
        asked = key, variable, opset
        if asked not in self._types:
            self._types[asked] = self._find(*asked)
        return self._types[asked]

    def lacks(self, node: ir.Node, opset: int) -> Iterator[ir.DataType]:
        """The element types of a standard node's operands and results with which its operator has no kernel."""
        key = operator_key(node)
        found = None if node.domain else signature(key, opset)
        for variable, dtype in {} if found is None else bindings(node, found).items():
            native = self.types(key, variable, opset)
            if native is not None and dtype not in native:
                yield dtype

    def _find(self, key: str, variable: str, opset: int) -> frozenset[ir.DataType] | None:
        opsets = self._kernels.get(key)
        if opsets is None or signature(key, opset) is None:
            return None
        first = max((int(known) for known in opsets if int(known) <= opset), default=None)
        names = None if first is None else opsets[str(first)].get(variable)
        return None if names is None else frozenset(map(ir.DataType.from_short_name, names.split()))
