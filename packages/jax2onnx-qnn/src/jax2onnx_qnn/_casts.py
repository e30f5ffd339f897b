"""Casts in the steps that the NPU has."""

from __future__ import annotations

import onnx_ir as ir
from jax2onnx_graph.rewrite.editor import GraphEditor
from jax2onnx_graph.rewrite.pass_base import GraphPass

__all__ = ["CastsPass"]

_T = ir.DataType


class CastsPass(GraphPass):
    """Cast booleans to integers of 64 bits by way of 32."""

    def rewrite_graph(self, editor: GraphEditor) -> None:
        """Apply the rule above to one graph."""
        for node in list(editor.nodes()):
            if node.op_type == "Cast" and not node.domain and node.attributes.get_int("to", 0) == _T.INT64:
                source = node.inputs[0]
                if source is not None and source.dtype == _T.BOOL:
                    b = editor.before(node)
                    node.replace_input_with(0, b.op("Cast", source, to=int(_T.INT32), dims=b.dims(source)))
                    editor.modified = True
