"""`expect_graph`: whether a model has the structure that a case says it has."""

from __future__ import annotations

import collections
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import onnx
import onnx_ir as ir
from jax2onnx_core.plugins.cases import ExpectGraph
from jax2onnx_core.plugins.expectations import AttributeValue
from jax2onnx_graph.traversal import is_value_read

__all__ = ["GraphMismatchError", "match_graph", "operator_name", "shape_text"]

_ENUMERATED = 2000
"""The number of sequences of nodes that fit a path after which no further one is looked for."""


class GraphMismatchError(AssertionError):
    """A graph is not as expected; the message shows the graph, and how far the path fits."""


class PathNode(NamedTuple):
    """A node of a path: an operator, and the shape of its result or None for any."""

    operator: str
    shape: str | None


def match_graph(model: ir.Model, expected: ExpectGraph) -> None:
    """Raise `GraphMismatchError` unless the model has the expected structure."""
    nodes = [n for n in _nodes(model, everywhere=expected.search_functions) if n.op_type != "Constant"]
    problems = [
        *_unknown_names(expected), *_count_problems(nodes, expected), *_path_problems(nodes, expected), *_attribute_problems(nodes, expected.attrs)
    ]  # fmt: skip
    if expected.no_unused_inputs:
        problems += _unused_inputs(model, everywhere=expected.search_functions)
    if problems:
        raise GraphMismatchError("\n".join([*problems, "The graph:", show_graph(nodes)]))


def _nodes(model: ir.Model, *, everywhere: bool) -> Iterator[ir.Node]:
    if not everywhere:
        yield from model.graph
        return
    yield from model.graph.all_nodes()
    for function in model.functions.values():
        yield from function.all_nodes()


def operator_name(node: ir.Node) -> str:
    """`Add`, or `domain.Name` outside the standard domain."""
    return f"{node.domain}.{node.op_type}" if node.domain else node.op_type


def shape_text(value: ir.Value) -> str:
    """`Bx32x28x28`; `()` for a scalar, `?` where the rank is unknown."""
    if value.shape is None:
        return "?"
    return "x".join(_dimensions(value)) or "()"


def _dimensions(value: ir.Value) -> list[str]:
    assert value.shape is not None
    return [str(d.value or "?") if isinstance(d, ir.SymbolicDim) else str(d) for d in value.shape]


def show_graph(nodes: Sequence[ir.Node]) -> str:
    """One line per node: operator and shape, operands, results."""
    lines = []
    for node in nodes:
        operands = ", ".join("" if v is None else str(v.name) for v in node.inputs)
        lines.append(f"  {operator_name(node)}:{shape_text(node.outputs[0])}  ({operands}) → {node.outputs[0].name}")
    return "\n".join(lines) or "  (no operators)"


# Names of what is not to be there, with which a misspelt expectation would hold of any graph.


def _unknown_names(expected: ExpectGraph) -> Iterator[str]:
    absent = [*expected.absent, *(operator for operator, count in expected.counts.items() if not count)]
    for operator in absent:
        if operator == "Constant":
            yield "Nodes of Constant are not counted, so that none is always found."
        elif "." not in operator and not onnx.defs.has(operator):
            yield f"ONNX has no operator {operator!r}, so that none is always found."
    for operator, attributes in expected.attrs.items():
        known = onnx.defs.get_schema(operator).attributes if onnx.defs.has(operator) else attributes
        for name, value in attributes.items():
            if value is None and name not in known:
                yield f"{operator} has no attribute {name!r}, so that it is always absent."


# Counts.


def _count_problems(nodes: Sequence[ir.Node], expected: ExpectGraph) -> Iterator[str]:
    counts = collections.Counter(map(operator_name, nodes))
    for operator, count in expected.counts.items():
        if counts[operator] != count:
            yield f"Expected {count} {operator}, found {counts[operator]}."
    for operator in expected.absent:
        if counts[operator]:
            yield f"Expected no {operator}, found {counts[operator]}."
    if expected.at_most is not None and len(nodes) > expected.at_most:
        yield f"Expected at most {expected.at_most} operators, found {len(nodes)}."


# Attributes and inputs.


def _attribute_problems(
    nodes: Sequence[ir.Node], expected: Mapping[str, Mapping[str, AttributeValue]]
) -> Iterator[str]:
    for operator, attributes in expected.items():
        found = [node for node in nodes if operator_name(node) == operator]
        if not found:
            yield f"Expected attributes of {operator}, found no such operator."
        for node, (name, wanted) in itertools.product(found, attributes.items()):
            value = node.attributes[name].value if name in node.attributes else None
            if not _is_value(value, wanted):
                shown = f"{operator}:{shape_text(node.outputs[0])} → {node.outputs[0].name}"
                yield f"{shown} has {_attribute_text(name, value)}, not {_attribute_text(name, wanted)}."


def _is_value(value: object, wanted: AttributeValue) -> bool:
    """Whether an attribute has a value; numbers that are no integers are compared in float32, as ONNX stores them."""
    if isinstance(value, float) and isinstance(wanted, int | float):
        return np.float32(value) == np.float32(wanted)
    if isinstance(value, str) or isinstance(wanted, str):
        return value == wanted
    if isinstance(value, Sequence) and isinstance(wanted, Sequence):
        return len(value) == len(wanted) and all(map(_is_value, value, wanted))
    return value == wanted


def _attribute_text(name: str, value: object) -> str:
    """`axis=1`, or `no axis` for None."""
    return f"no {name}" if value is None else f"{name}={f'{value:.7g}' if isinstance(value, float) else repr(value)}"


def _unused_inputs(model: ir.Model, *, everywhere: bool) -> Iterator[str]:
    for value in model.graph.inputs:
        if not is_value_read(value):
            yield f"The input {value.name!r} is not used."
    for function in model.functions.values() if everywhere else ():
        for value in function.inputs:
            if not is_value_read(value):
                yield f"The input {value.name!r} of {function.domain}.{function.name} is not used."


# Paths.


def _path_problems(nodes: Sequence[ir.Node], expected: ExpectGraph) -> Iterator[str]:
    following = _followers(nodes)
    covered: set[ir.Node] = set()
    for path in expected.paths:
        path_nodes = parse_path(path)
        matches = list(itertools.islice(_matches(nodes, path_nodes, following, expected.symbols), _ENUMERATED))
        if not matches:
            yield _path_problem(path, nodes, path_nodes, following, expected.symbols)
        else:
            covered.update(max(matches, key=lambda match: len(set(match) - covered)))
    if expected.match == "exact":
        extra = [n for n in nodes if n not in covered and operator_name(n) not in expected.counts]
        if extra:
            listed = ", ".join(f"{operator_name(n)}:{shape_text(n.outputs[0])}" for n in extra)
            yield f"Operators that no path names: {listed}."


def parse_path(path: str) -> list[PathNode]:
    """The operators of a path such as `"Transpose -> Conv:Bx32x28x28"`."""
    path_nodes = []
    for part in path.split("->"):
        operator, _, shape = part.strip().partition(":")
        if not operator:
            raise ValueError(f"expect_graph: {path!r} names no operator between two arrows.")
        path_nodes.append(PathNode(operator.strip(), shape.strip() or None))
    return path_nodes


def _followers(nodes: Sequence[ir.Node]) -> Mapping[ir.Node, list[ir.Node]]:
    """Node → the nodes that use its results, in graph order."""
    among = set(nodes)
    return {
        node: list(dict.fromkeys(user for out in node.outputs for user in out.consumers() if user in among))
        for node in nodes
    }


#: The dimensions that names without a number stand for so far.
_Bound: TypeAlias = Mapping[str, str]


def _fits(node: ir.Node, wanted: PathNode, symbols: Mapping[str, int | None], bound: _Bound) -> Iterator[_Bound]:
    """The dimensions that names stand for, for each way in which a node is the one that is wanted; nothing if it is not."""
    if wanted.operator not in (operator_name(node), "?"):
        return
    if wanted.shape is None:
        yield bound
        return
    found: list[_Bound] = []
    for value in node.outputs:
        found += (now for now in _shape_fits(value, wanted.shape, symbols, bound) if now not in found)
    yield from found


def _shape_fits(value: ir.Value, pattern: str, symbols: Mapping[str, int | None], bound: _Bound) -> Iterator[_Bound]:
    """The same for the shape of a value."""
    if value.shape is None:
        yield from [bound] if pattern == "?" else []
        return
    actual = _dimensions(value)
    if pattern == "()" or not actual:
        if pattern == "()" and not actual:
            yield bound
        return

    def extend(axis: int, rest: str, bound: _Bound) -> Iterator[_Bound]:
        for text, now in _readings(actual[axis], symbols, bound):
            if axis == len(actual) - 1 and rest == text:
                yield now
            elif axis < len(actual) - 1 and rest.startswith(f"{text}x"):
                yield from extend(axis + 1, rest[len(text) + 1 :], now)

    yield from extend(0, pattern, bound)


def _readings(dim: str, symbols: Mapping[str, int | None], bound: _Bound) -> Iterator[tuple[str, _Bound]]:
    """The texts that may stand for a dimension in a pattern, each with the dimensions of names after it: a name is one dimension."""
    yield from ((text, bound) for text in dict.fromkeys([dim, "?"]) if text not in symbols)
    for name, number in symbols.items():
        if number is not None and str(number) == dim:
            yield name, bound
        elif number is None and bound.get(name, dim) == dim:
            yield name, {**bound, name: dim}


def _matches(
    nodes: Sequence[ir.Node], path_nodes: Sequence[PathNode], following: Mapping[ir.Node, list[ir.Node]],
    symbols: Mapping[str, int | None],
) -> Iterator[tuple[ir.Node, ...]]:  # fmt: skip
    """Every sequence of nodes that follow each other along data edges and fit the path."""

    def extend(match: tuple[ir.Node, ...], bound: _Bound) -> Iterator[tuple[ir.Node, ...]]:
        if len(match) == len(path_nodes):
            yield match
            return
        candidates = following[match[-1]] if match else nodes
        for node in candidates:
            for now in _fits(node, path_nodes[len(match)], symbols, bound):
                yield from extend((*match, node), now)

    return extend((), {})


def _path_problem(
    path: str, nodes: Sequence[ir.Node], path_nodes: Sequence[PathNode], following: Mapping[ir.Node, list[ir.Node]],
    symbols: Mapping[str, int | None],
) -> str:  # fmt: skip
    """The sentence that says how far a path fits into the graph."""
    for length in range(len(path_nodes) - 1, 0, -1):
        match = next(_matches(nodes, path_nodes[:length], following, symbols), None)
        if match is not None:
            after = following[match[-1]]
            found = ", ".join(f"{operator_name(n)}:{shape_text(n.outputs[0])}" for n in after) or "the end of the graph"
            fitting = " -> ".join(f"{operator_name(n)}:{shape_text(n.outputs[0])}" for n in match)
            return f"Path {path!r} is not in the graph. It fits as far as {fitting}; then comes {found}, not {_text(path_nodes[length])}."
    first = path_nodes[0]
    same = [shape_text(n.outputs[0]) for n in nodes if operator_name(n) == first.operator]
    hint = f" {first.operator} has the shapes {', '.join(same)}." if same else ""
    return f"Path {path!r} is not in the graph: there is no {_text(first)}.{hint}"


def _text(wanted: PathNode) -> str:
    return wanted.operator if wanted.shape is None else f"{wanted.operator}:{wanted.shape}"
