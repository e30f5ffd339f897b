"""An operator that runs in a branch of an `If` only, with its results written otherwise in the other one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from jax2onnx_graph._ir import ir
from jax2onnx_graph.metadata import note_mended
from jax2onnx_graph.rewrite.editor import GraphEditor, InsertionPoint
from jax2onnx_graph.traversal import is_value_read

__all__ = ["Write", "open_graph", "put_if", "write_results"]

#: Writes the results of a graph, by a builder at its end and its editor.
Write = Callable[[InsertionPoint, GraphEditor], Sequence[ir.Value]]


def put_if(
    editor: GraphEditor, node: ir.Node, condition: ir.Value, write: Write, *, runs_where: bool, mended: str
) -> None:
    """Let an operator run only where a condition says so.

    Args:
      editor: the graph of the operator.
      node: the operator; it is discarded.
      condition: the condition, a scalar.
      write: writes all results of the operator for where it does not run.
      runs_where: the value of the condition for which the operator runs.
      mended: what is noted of the copy of the operator in its branch, see `note_mended`.
    """
    name, read = node.name or node.op_type, [i for i, value in enumerate(node.outputs) if is_value_read(value)]
    outputs = [_like(node.outputs[i]) for i in read]
    branches = _operator_body(editor, node, read, mended), open_graph(editor.node_name(f"{name}_other"), (), outputs)
    then, other = branches if runs_where else reversed(branches)
    attributes = [ir.AttrGraph("then_branch", then), ir.AttrGraph("else_branch", other)]
    put = ir.Node(
        "", "If", [condition], attributes, outputs=outputs, name=name, metadata_props=dict(node.metadata_props)
    )
    editor.insert_before(node, put)

    def write_read(b: InsertionPoint, other: GraphEditor) -> list[ir.Value]:
        results = write(b, other)
        return [results[i] for i in read]

    write_results(next(nested for nested in editor.nested_in(put) if nested.graph is branches[1]), write_read)
    for i, new in zip(read, outputs, strict=True):
        editor.replace_value(node.outputs[i], new)
    editor.discard(node)


def open_graph(name: str, inputs: Iterable[ir.Value], results: Sequence[ir.Value]) -> ir.Graph:
    """A graph whose results have the types and shapes of `results` and are yet to be written, by `write_results`."""
    copies = [
        ir.Node("", "Identity", [value], outputs=[_like(value)], name=f"{name}_{i}") for i, value in enumerate(results)
    ]
    return ir.Graph(list(inputs), [copy.outputs[0] for copy in copies], nodes=copies, name=name)


def write_results(editor: GraphEditor, write: Write) -> None:
    """Write the results of a graph that `open_graph` gave."""
    copies, outputs = list(editor.nodes()), editor.graph.outputs
    for i, result in enumerate(write(editor.before(copies[0]), editor)):
        made = result.producer()
        if made is not None and made.graph is editor.graph and not result.is_graph_output():
            outputs[i] = result
            editor.discard(copies[i])
        else:
            copies[i].replace_input_with(0, result)
    editor.finish()


def _like(value: ir.Value) -> ir.Value:
    return ir.Value(type=value.type, shape=value.shape)


def _operator_body(editor: GraphEditor, node: ir.Node, read: Sequence[int], mended: str) -> ir.Graph:
    """A graph that holds a copy of a node and gives the results that are read."""
    graph = editor.alone(node)
    graph[0].meta.update(node.meta)
    note_mended(graph[0], mended)
    graph.outputs[:] = [graph[0].outputs[i] for i in read]
    return graph
