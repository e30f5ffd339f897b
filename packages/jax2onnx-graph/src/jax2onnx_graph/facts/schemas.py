"""Element types of an operator's results, and the operands that share them, from ONNX's own schemas."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence

import onnx

from jax2onnx_graph._ir import ir
from jax2onnx_graph.errors import RuleError
from jax2onnx_graph.facts.operators import ResultType, ValueUse, facts_of

__all__ = ["element_inputs", "output_types", "value_inputs"]

_Inputs = Sequence[ir.Value | None]
_Attributes = Mapping[str, object]
# Finds the type of one output.
_Source = Callable[[_Inputs, _Attributes], ir.DataType | None]


def output_types(
    op_type: str, domain: str, opset: int, inputs: _Inputs, attributes: _Attributes, count: int
) -> list[ir.DataType]:
    """The element types of the first outputs of a node.

    Args:
      op_type: the operator.
      domain: its domain, empty for the standard operators.
      opset: the version of the standard operators.
      inputs: the operands, None for those left out.
      attributes: name → value; those that name an element type are numbers (`onnx.TensorProto.FLOAT`), tensors are `ir`
        tensors.
      count: the number of outputs.

    Raises:
      RuleError: the opset has no such operator, or its schema leaves a type open.
    """
    sources = _sources(op_type, domain, opset)
    types = []
    for i in range(count):
        source = sources[min(i, len(sources) - 1)] if sources else None
        dtype = source(inputs, attributes) if source else None
        if dtype is None:
            raise RuleError(
                f"The type of output {i} of {domain or 'ai.onnx'}.{op_type} does not follow from its schema; "
                "pass dtype=… to ctx.op."
            )
        types.append(dtype)
    return types


@functools.cache
def value_inputs(op_type: str, count: int, output: int = 0) -> tuple[int, ...]:
    """The inputs of a standard operator that share the type variable of an output.

    They hold the values that the output is made of; the other inputs are shapes, axes, indices, conditions.

    Args:
      op_type: the operator.
      count: the number of inputs.
      output: the index of the output.

    Returns:
      Indices of inputs.

    >>> value_inputs("Where", 3), value_inputs("Concat", 4), value_inputs("Shape", 1)
    ((1, 2), (0, 1, 2, 3), ())
    """
    try:
        schema = onnx.defs.get_schema(op_type)
    except onnx.defs.SchemaError:
        return ()
    inputs, variables = schema.inputs, {constraint.type_param_str for constraint in schema.type_constraints}
    variable = schema.outputs[min(output, len(schema.outputs) - 1)].type_str
    if not inputs or variable not in variables:
        return ()
    return tuple(i for i in range(count) if inputs[min(i, len(inputs) - 1)].type_str == variable)


@functools.cache
def element_inputs(op_type: str, count: int, output: int = 0) -> tuple[int, ...]:
    """The operands whose elements an output of a standard operator holds: moved, chosen among, or converted.

    Args:
      op_type: the operator, without a `reduction`.
      count: the number of operands.
      output: the index of the output.

    Returns:
      Indices of operands; none where the output holds new numbers.

    >>> element_inputs("Where", 3), element_inputs("Cast", 1), element_inputs("Add", 2)
    ((1, 2), (0,), ())
    """
    facts = facts_of(op_type)
    if facts.converts:
        return (0,)
    return value_inputs(op_type, count, output) if facts.use in (ValueUse.MOVE, ValueUse.ORDER) else ()


@functools.cache
def _sources(op_type: str, domain: str, opset: int) -> list[_Source | None]:
    result_type = None if domain else facts_of(op_type).result_type
    if result_type is not None:
        return [_from_result_type(result_type)]
    try:
        schema = (
            onnx.defs.get_schema(op_type, opset, domain) if not domain else onnx.defs.get_schema(op_type, domain=domain)
        )
    except onnx.defs.SchemaError:
        if domain:
            return []
        raise RuleError(f"Opset {opset} of ONNX has no operator {op_type}.") from None
    letters: dict[str, int] = {}
    for i, formal in enumerate(schema.inputs):
        letters.setdefault(formal.type_str, i)
    allowed = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}
    return [_source(formal.type_str, letters, allowed, len(schema.inputs)) for formal in schema.outputs]


def _source(
    letter: str, letters: Mapping[str, int], allowed: Mapping[str, Sequence[str]], arity: int
) -> _Source | None:
    if letter in letters:
        index = letters[letter]
        if index == arity - 1:  # the last formal input may be variadic or omitted
            return lambda inputs, _: next((v.dtype for v in inputs[index:] if v is not None), None)
        return lambda inputs, _: _dtype_of(inputs, index)
    choices = allowed.get(letter, [letter])
    if len(choices) == 1 and choices[0].startswith("tensor("):
        fixed = ir.DataType[choices[0].removeprefix("tensor(").removesuffix(")").upper()]
        return lambda _inputs, _attributes: fixed
    return None


def _from_result_type(rule: ResultType) -> _Source:
    def source(inputs: _Inputs, attributes: _Attributes) -> ir.DataType | None:
        given = attributes.get(rule.attribute)
        if isinstance(given, ir.TensorProtocol):
            return given.dtype
        if isinstance(given, int) and given != ir.DataType.UNDEFINED:
            return ir.DataType(given)
        operand = None if rule.operand is None else _dtype_of(inputs, rule.operand)
        return rule.default if operand is None else operand

    return source


def _dtype_of(inputs: _Inputs, index: int) -> ir.DataType | None:
    value = inputs[index] if index < len(inputs) else None
    return None if value is None else value.dtype
