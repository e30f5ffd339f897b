"""Scans with at least one state, as TensorRT's parser wants them."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
from jax2onnx_graph.rewrite.editor import GraphEditor
from jax2onnx_graph.rewrite.pass_base import GraphPass

__all__ = ["ScansPass"]


class ScansPass(GraphPass):
    """Give a Scan without states the state 0, which every step hands on as it is."""

    def rewrite_graph(self, editor: GraphEditor) -> None:
        """Apply the rule above to one graph."""
        for node in list(editor.nodes()):
            is_scan = node.op_type == "Scan" and not node.domain
            if is_scan and node.attributes.get_int("num_scan_inputs", 0) == len(node.inputs):
                _carry(editor, node)


def _carry(editor: GraphEditor, node: ir.Node) -> None:
    (body,) = editor.nested_in(node)
    name = editor.value_name(f"{node.name}_state")
    state = ir.Value(name=name, type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape([]))
    body.graph.inputs.insert(0, state)
    body.graph.outputs.insert(0, body.after(state).op("Identity", state, dims=()))
    body.modified = True
    zero = editor.constant(np.array(0, np.float32))
    carrying = ir.Node(
        node.domain, node.op_type, [zero, *node.inputs], node.attributes.values(), name=node.name,
        num_outputs=1 + len(node.outputs), metadata_props=dict(node.metadata_props),
    )  # fmt: skip
    final, *replaced = carrying.outputs
    final.name, final.type, final.shape = editor.value_name(f"{name}_after"), state.type, state.shape
    ir.convenience.replace_nodes_and_values(editor.graph, node, [node], [carrying], node.outputs, replaced)
    editor.modified = True
