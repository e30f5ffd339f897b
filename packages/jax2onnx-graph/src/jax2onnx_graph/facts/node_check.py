"""`check_node` and `check_operands`: a node is compared with the schema of its operator."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import onnx

from jax2onnx_graph._ir import ir
from jax2onnx_graph.errors import RuleError
from jax2onnx_graph.facts.availability import schema_of

__all__ = ["check_node", "check_operands", "is_accepted"]

_Option = onnx.defs.OpSchema.FormalParameterOption
_Types = tuple[ir.DataType | None, ...]


class _Form(NamedTuple):
    """The form that the schema of an operator prescribes for nodes.

    Attributes:
      operands, results: the smallest and the greatest number of them.
      optional: for each formal operand whether it may be left out in the middle.
      attributes: name → type.
      required: the names of the attributes that have to be given.
    """

    operands: tuple[int, int]
    results: tuple[int, int]
    optional: tuple[bool, ...]
    attributes: Mapping[str, str]
    required: frozenset[str]


def check_operands(op_type: str, opset: int, operands: Sequence[object]) -> None:
    """Check the operands of a node that is to be made.

    Args:
      op_type: a standard operator.
      opset: the version of the standard operators.
      operands: the operands, None for those left out.

    Raises:
      RuleError: one is no value of a graph, or the schema does not allow their number or that one is left out.
    """
    for index, value in enumerate(operands):
        if value is not None and not isinstance(value, ir.Value):
            raise RuleError(
                f"Operand {index} of {op_type} is {value!r}, not a value of the graph; write ctx.constant({value!r}, like=x) "
                "with another operand x."
            )
    form = _form(op_type, opset)
    if not _is_within(len(operands), form.operands):
        raise RuleError(f"{op_type} of opset {opset} takes {_count(form.operands)} operands, not {len(operands)}.")
    for index, value in enumerate(operands):
        if value is None and not form.optional[min(index, len(form.optional) - 1)]:
            raise RuleError(f"Operand {index} of {op_type} cannot be left out.")


def check_node(node: ir.Node, opset: int, computes: Callable[[ir.Node, int], bool]) -> None:
    """Check the attributes, results and element types of a node.

    Args:
      node: a node of a standard operator whose operands were checked.
      opset: the version of the standard operators.
      computes: tells whether the target runs a node at an opset; then an element type that the schema does not allow is
        accepted, because legalisation mends it.

    Raises:
      RuleError: the schema does not allow one of them.
    """
    _check_form(node, opset)
    problem = _type_problem(node.op_type, opset, *_types_of(node))
    if problem is not None and not (problem.may_be_carried and computes(node, opset)):
        raise RuleError(problem.text)


def is_accepted(node: ir.Node, opset: int) -> bool:
    """Whether the schema of a standard operator at an opset allows a node as it is: operands, attributes, types."""
    try:
        check_operands(node.op_type, opset, node.inputs)
        _check_form(node, opset)
    except RuleError:
        return False
    return _type_problem(node.op_type, opset, *_types_of(node)) is None


def _check_form(node: ir.Node, opset: int) -> None:
    """Raise RuleError where the schema does not allow a node's attributes or the number of its results."""
    name, form = f"{node.op_type} of opset {opset}", _form(node.op_type, opset)
    for required in form.required:
        if required not in node.attributes:
            raise RuleError(f"{name} needs the attribute {required}.")
    for attribute in node.attributes.data.values():
        expected = form.attributes.get(attribute.name)
        if expected is None:
            known = ", ".join(sorted(form.attributes)) or "none"
            raise RuleError(f"{name} has no attribute {attribute.name!r}; it has: {known}.")
        if expected != attribute.type.name:
            raise RuleError(
                f"The attribute {attribute.name} of {name} is of type {expected}, not {attribute.type.name} ({attribute.value!r})."
            )
    if not _is_within(len(node.outputs), form.results):
        raise RuleError(f"{name} has {_count(form.results)} results, not {len(node.outputs)}.")


def _types_of(node: ir.Node) -> tuple[_Types, _Types]:
    """The element types of a node's operands and results."""
    return tuple([None if v is None else v.dtype for v in node.inputs]), tuple([v.dtype for v in node.outputs])


def _is_within(count: int, bounds: tuple[int, int]) -> bool:
    return bounds[0] <= count <= bounds[1]


def _count(bounds: tuple[int, int]) -> str:
    least, most = bounds
    return str(least) if least == most else f"{least} to {most}" if most < 2**31 - 1 else f"at least {least}"


def _attribute_type(attribute: onnx.defs.OpSchema.Attribute) -> str:
    name: str = attribute.type.name  # type: ignore[attr-defined]  # ONNX's stubs do not say that it is an enumeration
    return name


@functools.cache
def _form(op_type: str, opset: int) -> _Form:
    schema = schema_of(op_type, opset)
    if schema is None:
        raise RuleError(f"Opset {opset} of ONNX has no operator {op_type}.")
    return _Form(
        (schema.min_input, schema.max_input),
        (schema.min_output, schema.max_output),
        tuple(formal.option != _Option.Single for formal in schema.inputs),
        {name: _attribute_type(attribute) for name, attribute in schema.attributes.items()},
        frozenset(name for name, attribute in schema.attributes.items() if attribute.required),
    )


class _TypeProblem(NamedTuple):
    """A fault in the element types of a node, and whether legalisation can mend it."""

    text: str
    may_be_carried: bool


@functools.cache
def _type_problem(op_type: str, opset: int, operands: _Types, results: _Types) -> _TypeProblem | None:
    """The first problem: types that differ where the schema wants one, then a type that it does not allow."""
    schema = schema_of(op_type, opset)
    assert schema is not None, "the operands of the node were checked"
    variables = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}
    bound: dict[str, ir.DataType] = {}
    refused: _TypeProblem | None = None
    for what, formals, dtypes in (("operand", schema.inputs, operands), ("result", schema.outputs, results)):
        for index, dtype in enumerate(dtypes):
            formal = formals[min(index, len(formals) - 1)]
            if dtype is None:
                continue
            if f"tensor({dtype.name.lower()})" not in variables.get(formal.type_str, {formal.type_str}):
                text = f"{op_type} of opset {opset} takes no {dtype} as its {what} {index} ({formal.name})."
                refused = refused or _TypeProblem(text, may_be_carried=True)
            mixed = formal.option == _Option.Variadic and not formal.is_homogeneous
            first = dtype if mixed or formal.type_str not in variables else bound.setdefault(formal.type_str, dtype)
            if first != dtype:
                return _TypeProblem(
                    f"{what.capitalize()} {index} ({formal.name}) of {op_type} is {dtype}, but it has to be {first}, as the one "
                    "before it; convert one of them by ctx.cast(x, dtype).",
                    may_be_carried=False,
                )
    return refused
