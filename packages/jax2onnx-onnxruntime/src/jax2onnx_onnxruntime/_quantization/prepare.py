"""The form of a model with which ONNX Runtime's quantizers work."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
from jax2onnx_graph.build.names import Names
from jax2onnx_graph.facts.values import constant_tensor
from jax2onnx_graph.passes import make_names_unique
from jax2onnx_graph.rewrite.editor import GraphEditor
from jax2onnx_graph.rewrite.pass_base import GraphPass
from jax2onnx_graph.traversal import walk
from onnx_ir.passes.common import InlinePass, RemoveUnusedNodesPass

__all__ = ["plain_proto", "prepared"]


def prepared(model: ir.Model, *, plain_products: bool) -> ir.Model:
    """A copy of a model without functions; if wanted, all its products with weights are `MatMul`.

    All nodes have names, by which quantizers are told what to leave out, and no weights of two graphs have one: the weights that are
    made of them are found by these names.
    """
    copy = model.clone()
    for graph_pass in (InlinePass(), *([_PlainProducts()] if plain_products else []), RemoveUnusedNodesPass()):
        copy = graph_pass(copy).model
    make_names_unique(copy)
    names = Names(node.name for node in walk(copy.graph) if node.name)
    for node in walk(copy.graph):
        node.name = node.name or names.unique(node.op_type)
    return copy


class _PlainProducts(GraphPass):
    """Write products with weights as `MatMul`, the only form in which all quantizers take them.

    1. `Gemm(x, w, b)` is `Add(MatMul(x, w), b)`. A transposed weight is laid out anew under a name of its own: a Gather
       may read the same table, which quantizers would transpose under its feet.
    """

    def rewrite_graph(self, editor: GraphEditor) -> None:
        for node in editor.nodes():
            if node.op_type == "Gemm" and not node.domain:
                _split(editor, node)


def _split(editor: GraphEditor, node: ir.Node) -> None:
    x, weight, *bias = node.inputs
    tensor = constant_tensor(weight)
    scaled = any(node.attributes.get_float(name, 1.0) != 1.0 for name in ("alpha", "beta"))
    if x is None or weight is None or tensor is None or scaled or node.attributes.get_int("transA", 0) == 1:
        return
    if node.attributes.get_int("transB", 0):
        weight = editor.derived(weight, ir.Tensor(np.ascontiguousarray(tensor.numpy().T)), "T")
    name = node.outputs[0].name
    product = editor.put(node, "MatMul", [x, weight])
    product.outputs[0].name = name
    if bias and bias[0] is not None:
        value = product.outputs[0]
        editor.reroute(value, lambda value: editor.after(value).op.Add(value, bias[0]))


def plain_proto(model: ir.Model) -> onnx.ModelProto:
    """The model as quantizers read it: without the types of its weights, which they take for those of activations."""
    proto = ir.to_proto(model)
    waiting = [proto.graph]
    while waiting:
        graph = waiting.pop()
        weights = {tensor.name for tensor in graph.initializer}
        kept = [value for value in graph.value_info if value.name not in weights]
        del graph.value_info[:]
        graph.value_info.extend(kept)
        waiting += [attribute.g for node in graph.node for attribute in node.attribute if attribute.HasField("g")]
    return proto
