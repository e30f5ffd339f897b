"""Element types and broadcast shapes of an operator's results, from ONNX's own schemas."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import onnx

from jax2onnx_graph._ir import ir
from jax2onnx_graph.errors import RuleError

__all__ = ["BROADCASTING", "broadcast_dims", "output_types"]

# What one output's type is taken from.
_Source = Callable[[Sequence[Any], Mapping[str, Any]], Any]

# Operators whose result has the numpy-broadcast shape of all their operands.
BROADCASTING = frozenset(
    [
        "Abs",
        "Acos",
        "Acosh",
        "Add",
        "And",
        "Asin",
        "Asinh",
        "Atan",
        "Atanh",
        "BitCast",
        "BitShift",
        "BitwiseAnd",
        "BitwiseNot",
        "BitwiseOr",
        "BitwiseXor",
        "Cast",
        "CastLike",
        "Ceil",
        "Celu",
        "Clip",
        "Cos",
        "Cosh",
        "CumSum",
        "Div",
        "Elu",
        "Equal",
        "Erf",
        "Exp",
        "Floor",
        "Gelu",
        "Greater",
        "GreaterOrEqual",
        "HardSigmoid",
        "HardSwish",
        "Identity",
        "IsInf",
        "IsNaN",
        "LeakyRelu",
        "Less",
        "LessOrEqual",
        "Log",
        "LogSoftmax",
        "Max",
        "Mean",
        "Min",
        "Mish",
        "Mod",
        "Mul",
        "Neg",
        "Not",
        "Or",
        "Pow",
        "PRelu",
        "Reciprocal",
        "Relu",
        "Round",
        "Selu",
        "Sigmoid",
        "Sign",
        "Sin",
        "Sinh",
        "Softmax",
        "Softplus",
        "Softsign",
        "Sqrt",
        "Sub",
        "Sum",
        "Swish",
        "Tan",
        "Tanh",
        "ThresholdedRelu",
        "Trilu",
        "Where",
        "Xor",
    ]
)


def output_types(
    op_type: str, domain: str, opset: int, inputs: Sequence[Any], attributes: Mapping[str, Any], count: int
) -> list[ir.DataType]:
    """The element types of the first `count` outputs; raises RuleError when the schema leaves one open."""
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
def _sources(op_type: str, domain: str, opset: int) -> list[_Source | None]:
    if op_type in _SPECIAL and not domain:
        return [_SPECIAL[op_type]]
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
        return lambda inputs, _: inputs[index].dtype if index < len(inputs) and inputs[index] is not None else None
    choices = allowed.get(letter, [letter])
    if len(choices) == 1 and choices[0].startswith("tensor("):
        fixed = ir.DataType[_NAMES.get(choices[0][7:-1], choices[0][7:-1].upper())]
        return lambda _inputs, _attributes: fixed
    return None


_NAMES = {"float": "FLOAT", "double": "DOUBLE"}


def _from_attribute(name: str, default: ir.DataType | None = None) -> _Source:
    def source(inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Any:
        if name in attributes:
            return ir.DataType(int(attributes[name]))
        return default if default is not None else inputs[0].dtype

    return source


def _constant_of_shape(_: Sequence[Any], attributes: Mapping[str, Any]) -> Any:
    return attributes["value"].dtype if "value" in attributes else ir.DataType.FLOAT


def _dequantized(inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Any:
    return ir.DataType(int(attributes["output_dtype"])) if "output_dtype" in attributes else inputs[1].dtype


def _quantized(inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Any:
    if len(inputs) > 2 and inputs[2] is not None:
        return inputs[2].dtype
    return ir.DataType(int(attributes["output_dtype"])) if "output_dtype" in attributes else ir.DataType.UINT8


_SPECIAL: dict[str, _Source] = {
    "BitCast": _from_attribute("to"),
    "Cast": _from_attribute("to"),
    "CastLike": lambda inputs, _: inputs[1].dtype,
    "ConstantOfShape": _constant_of_shape,
    "DequantizeLinear": _dequantized,
    "EyeLike": _from_attribute("dtype"),
    "QuantizeLinear": _quantized,
    "RandomNormal": _from_attribute("dtype", ir.DataType.FLOAT),
    "RandomNormalLike": _from_attribute("dtype"),
    "RandomUniform": _from_attribute("dtype", ir.DataType.FLOAT),
    "RandomUniformLike": _from_attribute("dtype"),
    "Bernoulli": _from_attribute("dtype"),
}


def broadcast_dims(shapes: Sequence[tuple[Any, ...] | None]) -> tuple[Any, ...] | None:
    """The numpy-broadcast of these shapes (dims may be symbolic); None where it cannot be known."""
    if any(shape is None for shape in shapes):
        return None
    known = [shape for shape in shapes if shape is not None]
    rank = max((len(shape) for shape in known), default=0)
    result: list[Any] = []
    for axis in range(-rank, 0):
        sizes = [shape[axis] for shape in known if len(shape) >= -axis]
        wide = [d for d in sizes if not (type(d) is int and d == 1)]
        if any(d != wide[0] for d in wide[1:]):
            return None
        result.append(wide[0] if wide else 1)
    return tuple(result)
