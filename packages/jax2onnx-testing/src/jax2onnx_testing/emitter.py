"""Writing the `expect_graph` snippet that describes a model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import onnx_ir as ir

from jax2onnx_testing.matcher import operator_name, shape_text

__all__ = ["expectation_of"]

_WIDTH = 110


def expectation_of(model: ir.Model) -> str:
    """The canonical `expect_graph(...)` call for the main graph of a model: exact, with all shapes."""
    nodes = [node for node in model.graph if node.op_type != "Constant"]
    paths = [" -> ".join(_label(n) for n in path) for path in _paths(nodes)]
    lines = [line for path in paths for line in _literal(path)]
    if len(lines) == 1 and len(lines[0]) < _WIDTH - 30:
        return f'expect_graph({lines[0]} match="exact")'
    return "\n".join(["expect_graph(", *(f"    {line}" for line in lines), '    match="exact",', ")"])


def _label(node: ir.Node) -> str:
    return f"{operator_name(node)}:{shape_text(node.outputs[0])}"


def _literal(path: str) -> list[str]:
    """A string literal, wrapped before an arrow where it is long."""
    lines: list[str] = []
    line = ""
    for step in path.split(" -> "):
        piece = step if not line and not lines else f" -> {step}"
        if line and len(line) + len(piece) > _WIDTH:
            lines.append(line)
            line = ""
        line += piece
    lines.append(line)
    return [f'"{text}"' for text in lines[:-1]] + [f'"{lines[-1]}",']


def _paths(nodes: Sequence[ir.Node]) -> Iterator[list[ir.Node]]:
    """Chains of data edges that cover every node; a chain that meets another one ends with the node where they meet."""
    order = {node: i for i, node in enumerate(nodes)}
    following: Mapping[ir.Node, list[ir.Node]] = {
        node: sorted({u for out in node.outputs for u in out.consumers() if u in order}, key=order.__getitem__)
        for node in nodes
    }
    seen: set[ir.Node] = set()
    for start in nodes:
        if start in seen:
            continue
        path = [start]
        seen.add(start)
        while following[path[-1]]:
            fresh = [n for n in following[path[-1]] if n not in seen]
            path.append(fresh[0] if fresh else following[path[-1]][0])
            if not fresh:
                break
            seen.add(path[-1])
        yield path
