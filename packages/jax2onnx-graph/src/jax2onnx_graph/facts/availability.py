"""Which operators a version of the standard has, and with which element types."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence

import numpy as np
import onnx

from jax2onnx_graph._ir import ir
from jax2onnx_graph.arrays import Dtype
from jax2onnx_graph.errors import ConversionError, RuleError
from jax2onnx_graph.facts.dtypes import first_opset
from jax2onnx_graph.facts.operators import facts_of, split_reduction

__all__ = ["check_attributes", "check_element_types", "check_operands", "is_allowed"]


@functools.cache
def is_allowed(op_type: str, dtype: Dtype, opset: int) -> bool:
    """Whether the schema of the operator allows its main operand this element type.

    An operator with a `reduction` may carry it in its name: "ScatterND_add".
    """
    name, _ = split_reduction(op_type)
    schema = _schema(name, opset)
    if schema is None:
        return False
    formals = [*schema.inputs, *schema.outputs]
    variable = facts_of(name).element_type or (formals[0].type_str if formals else "")
    allowed = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}.get(variable, [variable])
    return _type_name(dtype) in allowed


def check_operands(op_type: str, opset: int, inputs: Sequence[object]) -> None:
    """Raise RuleError where the schema of an operator does not allow the number or kind of a node's operands."""
    for index, value in enumerate(inputs):
        if value is not None and not isinstance(value, ir.Value):
            raise RuleError(
                f"Operand {index} of {op_type} is {value!r}, not a value of the graph; write ctx.constant({value!r}, like=x) "
                "with another operand x."
            )
    least, most, _ = _form(op_type, opset)
    if not least <= len(inputs) <= most:
        raise RuleError(f"{op_type} of opset {opset} takes {least} to {most} operands, not {len(inputs)}.")


def check_attributes(op_type: str, opset: int, names: Iterable[str]) -> None:
    """Raise RuleError where an operator has no attribute of that name."""
    _, _, known = _form(op_type, opset)
    for name in names:
        if name not in known:
            raise RuleError(
                f"{op_type} of opset {opset} has no attribute {name!r}; it has: {', '.join(sorted(known))}."
            )


def check_element_types(opset: int, dtypes: Iterable[ir.DataType | None]) -> None:
    """Raise ConversionError for an element type that the operators of the opset do not know."""
    for dtype in dtypes:
        first = 0 if dtype is None else first_opset(dtype)
        if first > opset:
            raise ConversionError(
                f"The model holds {dtype} tensors, which ONNX has from opset {first} on, and it is for opset {opset}. "
                f"Convert with to_onnx(..., opset={first})."
            )


@functools.cache
def _form(op_type: str, opset: int) -> tuple[int, int, frozenset[str]]:
    """The least and greatest number of operands, and the names of the attributes; RuleError for no operator."""
    schema = _schema(op_type, opset)
    if schema is None:
        raise RuleError(f"Opset {opset} of ONNX has no operator {op_type}.")
    return schema.min_input, schema.max_input, frozenset(schema.attributes)


@functools.cache
def _schema(op_type: str, opset: int) -> onnx.defs.OpSchema | None:
    try:
        return onnx.defs.get_schema(op_type, opset, "")
    except onnx.defs.SchemaError:
        return None


def _type_name(dtype: Dtype) -> str | None:
    try:
        return f"tensor({ir.DataType.from_numpy(np.dtype(dtype)).name.lower()})"
    except TypeError:
        return None
