"""A model as text for review: one line per node, small constants by value, large ones by type, no weights.

The text is made for line-by-line comparison: a node that is added or removed changes only its own line and those that
name its results. `str(ir.Model)` numbers the nodes, and `onnx.printer.to_text` writes out all weights.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

import onnx_ir as ir
from jax2onnx_graph.metadata import EXPORTER_KEY
from jax2onnx_graph.weights.absent import AbsentTensor

__all__ = ["graph_text"]

INLINE_ELEMENTS = 8
"""Constants of at most this many elements are written by value."""

_SHORT_METADATA = 60
"""Metadata values of at most this many characters are written; of longer ones only the key is."""

_INDENT = "    "


def graph_text(model: ir.Model) -> str:
    """Render a model as deterministic, readable text.

    Sections are separated by blank lines: a header with IR version, opsets and metadata; the graph; the weights,
    which are the initializers of more than `INLINE_ELEMENTS` elements, with their types but without their values; each
    function. Types are written as JAX does (`f32[B, 4]`, `?` where unknown), and floating point numbers with six
    significant digits, since further ones depend on the platform. Weights, functions, attributes and metadata are
    sorted, so that an order without meaning does not show. Names of nodes, metadata of nodes and values, and
    documentation strings are left out, and so are the versions of the exporter.

    Args:
        model: The model. It is not changed.

    Returns:
        The text, which ends with a line break.
    """
    of_model = {key: value for key, value in model.metadata_props.items() if key != EXPORTER_KEY}
    sections = [[*_header(model), *_metadata(of_model)], list(_graph("graph", model.graph))]
    if weights := _weights(model):
        sections.append(["weights:", *_indented(weights)])
    functions = sorted(model.functions.values(), key=lambda f: f.identifier())
    sections += [list(_function(function)) for function in functions]
    return "\n\n".join("\n".join(lines) for lines in sections) + "\n"


def _header(model: ir.Model) -> Iterator[str]:
    yield f"ir_version: {model.ir_version}"
    yield f"opset: {_opsets(model.opset_imports)}"


def _opsets(imports: Mapping[str, int]) -> str:
    return ", ".join(f"{domain or 'ai.onnx'} {version}" for domain, version in sorted(imports.items()))


def _metadata(properties: Mapping[str, str]) -> Iterator[str]:
    for key, value in sorted(properties.items()):
        short = len(value) <= _SHORT_METADATA and value.isprintable()
        yield f"metadata: {key} = {value}" if short else f"metadata: {key}"


def _graph(title: str, graph: ir.Graph) -> Iterator[str]:
    yield f"{title}{_signature(graph)}:"
    yield from _indented(_body(graph))


def _function(function: ir.Function) -> Iterator[str]:
    name = _qualified(function.domain, function.name, function.overload)
    yield f"function {name}{_signature(function)}{_parameters(function)}:"
    yield from _indented([f"opset: {_opsets(function.opset_imports)}", *_metadata(function.metadata_props)])
    yield from _indented(_body(function))


def _parameters(function: ir.Function) -> str:
    """The attributes a function takes: `name`, or `name=default`."""
    taken = [
        attribute.name if attribute.value is None else f"{attribute.name}={_attribute(attribute)}"
        for _, attribute in sorted(function.attributes.items())
    ]
    return f" {{{', '.join(taken)}}}" if taken else ""


def _signature(graph: ir.Graph | ir.Function) -> str:
    return f"({_declarations(graph.inputs)}) -> ({_declarations(graph.outputs)})"


def _declarations(values: Iterable[ir.Value]) -> str:
    return ", ".join(f"{_name(value)}: {_type(value)}" for value in values)


def _body(nodes: Iterable[ir.Node]) -> Iterator[str]:
    for node in nodes:
        inline = [value for value in node.outputs if _inline(value) is not None]
        if not inline:  # what is written where it is used has no line of its own
            yield from _node(node)


def _node(node: ir.Node) -> Iterator[str]:
    """`results = Operator(operands) {attributes}  # types of the results`, then the subgraphs, indented."""
    operands = [_operand(value) for value in node.inputs]
    while operands and operands[-1] == "_":
        operands.pop()
    plain, subgraphs = _split_attributes(node)
    results = ", ".join(map(_name, node.outputs))
    call = f"{_qualified(node.domain, node.op_type, node.overload)}({', '.join(operands)})"
    attributes = f" {{{', '.join(plain)}}}" if plain else ""
    yield f"{results} = {call}{attributes}  # {', '.join(map(_type, node.outputs))}"
    for name, graph in subgraphs:
        yield from _indented(_graph(name, graph))


def _split_attributes(node: ir.Node) -> tuple[list[str], list[tuple[str, ir.Graph]]]:
    """The attributes as `name=value`, and the subgraphs with their names."""
    plain: list[str] = []
    subgraphs: list[tuple[str, ir.Graph]] = []
    for name, attribute in sorted(node.attributes.items()):
        if attribute.is_ref():
            plain.append(f"{name}=@{attribute.ref_attr_name}")
        elif attribute.type == ir.AttributeType.GRAPH:
            subgraphs.append((name, attribute.as_graph()))
        elif attribute.type == ir.AttributeType.GRAPHS:
            subgraphs += [(f"{name}[{i}]", graph) for i, graph in enumerate(attribute.as_graphs())]
        else:
            plain.append(f"{name}={_attribute(attribute)}")
    return plain, subgraphs


_ATTRIBUTE_TEXTS: dict[ir.AttributeType, Callable[[ir.Attr], str]] = {
    ir.AttributeType.FLOAT: lambda a: _element(a.as_float()),
    ir.AttributeType.FLOATS: lambda a: f"[{', '.join(map(_element, a.as_floats()))}]",
    ir.AttributeType.TENSOR: lambda a: _tensor(a.as_tensor()),
    ir.AttributeType.TENSORS: lambda a: f"[{', '.join(map(_tensor, a.as_tensors()))}]",
    ir.AttributeType.INTS: lambda a: str(list(a.as_ints())),
    ir.AttributeType.STRINGS: lambda a: str(list(a.as_strings())),
}


def _attribute(attribute: ir.Attr) -> str:
    text = _ATTRIBUTE_TEXTS.get(attribute.type)
    return text(attribute) if text else repr(attribute.value)


def _weights(model: ir.Model) -> list[str]:
    """`name: type` of all initializers that are not written by value, those of subgraphs included."""
    graphs = [model.graph, *model.graph.subgraphs()]
    graphs += [graph for function in model.functions.values() for graph in function.subgraphs()]
    initializers = {value for graph in graphs for value in graph.initializers.values()}
    return sorted(f"{_name(value)}: {_type(value)}" for value in initializers if _inline(value) is None)


def _operand(value: ir.Value | None) -> str:
    """The constant if it is small, else the name; `_` for an optional operand that is absent."""
    if value is None:
        return "_"
    return _inline(value) or _name(value)


def _inline(value: ir.Value) -> str | None:
    """The text of a small constant, None for every other value, and where weights are absent; inputs and outputs keep their
    names.
    """
    tensor = _constant(value)
    if (
        tensor is None
        or isinstance(tensor, AbsentTensor)
        or tensor.size > INLINE_ELEMENTS
        or value.is_graph_input()
        or value.is_graph_output()
    ):
        return None
    return _tensor(tensor)


def _constant(value: ir.Value) -> ir.TensorProtocol | None:
    """The tensor of an initializer or of a `Constant` node."""
    node = value.producer()
    if node is None:
        return value.const_value if value.is_initializer() else None
    attribute = node.attributes.get("value") if node.op_type == "Constant" and not node.domain else None
    return None if attribute is None or attribute.is_ref() else attribute.as_tensor()


def _tensor(tensor: ir.TensorProtocol) -> str:
    """`f32{1}`, `i64[2]{0, -1}`; the type alone of more than `INLINE_ELEMENTS` elements."""
    dims = ", ".join(map(str, tensor.shape))
    kind = _dtype(tensor.dtype) + (f"[{dims}]" if dims else "")
    if tensor.size > INLINE_ELEMENTS:
        return kind
    return f"{kind}{{{', '.join(map(_element, tensor.numpy().ravel().tolist()))}}}"


def _element(element: complex | str | bytes) -> str:
    """Floating point and complex numbers with six digits, every other element in full."""
    if isinstance(element, bool):
        return str(element).lower()
    if isinstance(element, float | complex):
        return f"{element:.6g}"
    return repr(element)


def _type(value: ir.Value) -> str:
    dtype = "?" if value.dtype is None else _dtype(value.dtype)
    if value.shape is None:
        return f"{dtype}[?]"
    dims = (dim if isinstance(dim, int) else dim.value or "?" for dim in value.shape)
    return f"{dtype}[{', '.join(map(str, dims))}]"


def _dtype(dtype: ir.DataType) -> str:
    return "bool" if dtype == ir.DataType.BOOL else dtype.short_name()


def _name(value: ir.Value) -> str:
    return value.name or "_"


def _qualified(domain: str, name: str, overload: str) -> str:
    """`Add`, `domain.Name`, `domain.Name:overload`."""
    return (f"{domain}." if domain else "") + name + (f":{overload}" if overload else "")


def _indented(lines: Iterable[str]) -> Iterator[str]:
    return (_INDENT + line for line in lines)
