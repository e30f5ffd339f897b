"""Let one node stand for all that compute the same."""

from __future__ import annotations

from collections.abc import Hashable

from jax2onnx_graph._ir import ir
from jax2onnx_graph.build.origins import share_origins
from jax2onnx_graph.fingerprints import array_fingerprint, fingerprint

__all__ = ["EliminateCommonSubexpressions"]

# Tensors of more elements are weights, which are stored once anyway.
_MOST_ELEMENTS = 10
# Asked for by type, because a look whether an object has the members of a protocol takes long.
_TENSORS = {ir.AttributeType.TENSOR, ir.AttributeType.TENSORS}
_RANDOM = {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}


class EliminateCommonSubexpressions(ir.passes.InPlacePass):
    """What `onnx_ir`'s pass of this name does, which takes 0.0 and -0.0, or 1 and 1.0, for equal attributes.

    1. A node gives way to an earlier one of its graph with the same operator, operands and attributes.
    2. Nodes with subgraphs or large tensors, and those that draw random numbers, are kept.
    3. An output of the graph takes its name to the node that remains; a second output goes through Identity.
    """

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        graphs = [model.graph, *(function.graph for function in model.functions.values())]
        modified = [_merge(graph) for graph in graphs]
        return ir.passes.PassResult(model, any(modified))


def _merge(graph: ir.Graph) -> bool:
    seen: dict[Hashable, ir.Node] = {}
    modified = False
    for node in graph:
        key = _key(node)
        if key is None:
            continue
        first = seen.setdefault(key, node)
        if first is not node:
            _replace(graph, node, first)
            modified = True
    return modified


def _key(node: ir.Node) -> Hashable | None:
    """What is equal for nodes that compute the same; None for one that has to stay."""
    if not node.domain and node.op_type in _RANDOM:
        return None
    attributes: list[Hashable] = []
    for name, attribute in sorted(node.attributes.items()):
        is_tensor = attribute.type is ir.AttributeType.TENSOR and attribute.value is not None
        if attribute.type in (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS):
            return None
        if is_tensor and attribute.as_tensor().size > _MOST_ELEMENTS:
            return None
        special = _of_tensor if attribute.type in _TENSORS else _of_no_tensor
        attributes.append((name, attribute.type, attribute.ref_attr_name, fingerprint(attribute.value, special)))
    return node.op_identifier(), len(node.outputs), tuple(node.inputs), tuple(attributes)


def _of_tensor(value: object) -> Hashable | None:
    return array_fingerprint(value.numpy()) if isinstance(value, ir.TensorProtocol) else None


def _of_no_tensor(_: object) -> Hashable | None:
    return None


def _replace(graph: ir.Graph, node: ir.Node, first: ir.Node) -> None:
    """Let the results of `first` be used in place of those of `node`, which leaves the graph."""
    for old, new in zip(node.outputs, first.outputs, strict=True):
        for index, output in enumerate(graph.outputs):
            if output is old and (new.is_graph_output() or new.is_graph_input()):
                copy = ir.Value(name=old.name, type=old.type, shape=old.shape)
                graph.insert_before(node, ir.Node("", "Identity", [new], outputs=[copy]))
                graph.outputs[index] = copy
            elif output is old:
                new.name = old.name
                graph.outputs[index] = new
        ir.convenience.replace_all_uses_with(old, new)
        share_origins(old, new)
    graph.remove(node, safe=True)
