"""`schema_of` and `is_allowed`: the operators that a version of the standard has, and their element types."""

from __future__ import annotations

import functools
from collections.abc import Container

import numpy as np
import onnx

from jax2onnx_graph._ir import ir
from jax2onnx_graph.arrays import Dtype
from jax2onnx_graph.facts.operators import facts_of, split_reduction

__all__ = ["is_allowed", "main_value", "schema_of"]


@functools.cache
def is_allowed(op_type: str, dtype: Dtype, opset: int) -> bool:
    """Whether the schema of an operator allows its main operand an element type.

    Args:
      op_type: a standard operator; one with a `reduction` may carry it in its name: "ScatterND_add".
      dtype: the element type.
      opset: the version of the standard operators; False where it has no such operator.
    """
    name, _ = split_reduction(op_type)
    schema = schema_of(name, opset)
    if schema is None:
        return False
    formals = [*schema.inputs, *schema.outputs]
    variable = facts_of(name).element_type or (formals[0].type_str if formals else "")
    allowed = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}.get(variable, [variable])
    return _type_name(dtype) in allowed


def main_value(node: ir.Node, opset: int) -> ir.Value:
    """The operand of a standard operator whose element type decides whether there is a kernel; else the first result."""
    operands = _main_operands(node.op_type, opset)
    for index, value in enumerate(node.inputs):
        if value is not None and index in operands:
            return value
    return node.outputs[0]


@functools.cache
def _main_operands(op_type: str, opset: int) -> Container[int]:
    schema, variable = schema_of(op_type, opset), facts_of(op_type).element_type
    inputs = () if schema is None else schema.inputs
    return [i for i, formal in enumerate(inputs) if not variable or formal.type_str == variable]


@functools.cache
def schema_of(op_type: str, opset: int) -> onnx.defs.OpSchema | None:
    """The schema of a standard operator at an opset; None where there is no such operator."""
    try:
        return onnx.defs.get_schema(op_type, opset, "")
    except onnx.defs.SchemaError:
        return None


def _type_name(dtype: Dtype) -> str | None:
    try:
        return f"tensor({ir.DataType.from_numpy(np.dtype(dtype)).name.lower()})"
    except TypeError:
        return None
