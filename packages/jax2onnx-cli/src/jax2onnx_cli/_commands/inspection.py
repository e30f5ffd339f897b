"""`jax2onnx inspect`: what a model file holds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from jax2onnx_cli._terminal import Command, Result

if TYPE_CHECKING:
    from jax2onnx_graph import ir

__all__ = ["command"]

_EXAMPLES = ("jax2onnx inspect digits.onnx", "jax2onnx inspect digits.onnx --nodes")


@click.command("inspect", cls=Command, examples=_EXAMPLES)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--nodes", is_flag=True, help="List the nodes, too, with the types of what they compute.")
def command(*, file: Path, nodes: bool) -> Result:
    """Show what a model holds.

    That is inputs, outputs, symbols, states, functions, sizes, the largest weights and the operators, of a model of any producer.
    """
    from jax2onnx_graph.saving.reading import read_model
    from jax2onnx_report.summary import summarize, summary_lines, title_text

    model = read_model(file)
    summary = summarize(model)
    producer = " ".join(filter(None, [summary.producer, summary.producer_version])) or "an unknown program"
    lines = [f"ONNX model {title_text(summary)}, written by {producer}", *summary_lines(summary, everything=True)]
    listed = [_as_dict(node) for node in _nodes(model)] if nodes else []
    lines += [_line(node) for node in listed]
    data = {"file": str(file), **summary.as_dict(), **({"node_list": listed} if nodes else {})}
    return Result("\n".join(lines), data)


def _nodes(model: ir.Model) -> Iterator[ir.Node]:
    """The nodes of all graphs and functions, those of bodies after the node that has them."""
    from jax2onnx_graph.traversal import walk

    for root in (model.graph, *(function.graph for function in model.functions.values())):
        yield from walk(root)


def _as_dict(node: ir.Node) -> dict[str, object]:
    from jax2onnx_graph.facts.type_text import type_text

    return {
        "name": node.name or "",
        "operator": f"{node.domain}.{node.op_type}" if node.domain else node.op_type,
        "inputs": ["" if value is None else value.name or "" for value in node.inputs],
        "outputs": {value.name or "": type_text(value) for value in node.outputs},
    }


def _line(node: dict[str, object]) -> str:
    """A node as a line: `y: float32[3] = Add(x, w)`."""
    inputs, outputs = node["inputs"], node["outputs"]
    assert isinstance(inputs, list)
    assert isinstance(outputs, dict)
    results = ", ".join(f"{name}: {type_}" for name, type_ in outputs.items())
    return f"  {results} = {node['operator']}({', '.join(inputs)})"
