"""Merge chains of casts whose first casts are exact."""

from __future__ import annotations

__all__ = ["FoldCasts"]

from jax2onnx_graph._ir import ir
from jax2onnx_graph.facts.dtypes import is_exact_cast
from jax2onnx_graph.rewrite.editor import GraphEditor
from jax2onnx_graph.rewrite.pass_base import GraphPass

_D = ir.DataType


class FoldCasts(GraphPass):
    """Remove casts that change nothing.

    1. `Cast(x)` to the type that `x` has is `x`.
    2. `Cast(Cast(x))`, where the inner cast is exact, casts `x` directly, and is `x` where that is
       the type of `x`. An outer cast from a float to a narrower integer type stays: what it does
       out of range depends on the type that it comes from. So do casts from floats of 8 bits or less: a cast
       back to those saturates infinities, and not every runtime casts them as it casts wider floats.
    """

    def rewrite_graph(self, editor: GraphEditor) -> None:
        for node in editor.nodes():
            if node.op_type == "Cast" and not node.domain:
                _skip_exact_inner(editor, node)
                source = node.inputs[0]
                if source is not None and source.dtype == _D(node.attributes["to"].as_int()):
                    editor.replace(node, source)


def _skip_exact_inner(editor: GraphEditor, node: ir.Node) -> None:
    target = _D(node.attributes["to"].as_int())
    while (value := node.inputs[0]) is not None:
        inner = value.producer()
        if inner is None or inner.op_type != "Cast" or inner.domain:
            return
        source = inner.inputs[0]
        if source is None or source.dtype is None or value.dtype is None:
            return
        if _is_narrow_float(source.dtype) or not is_exact_cast(source.dtype, value.dtype):
            return
        if value.dtype.is_floating_point() and target.is_integer() and not is_exact_cast(source.dtype, target):
            return
        node.replace_input_with(0, source)
        editor.modified = True


def _is_narrow_float(dtype: ir.DataType) -> bool:
    return dtype.is_floating_point() and dtype.bitwidth <= 8
