"""Products which ONNX Runtime's graph optimiser would fuse into something wrong, written so that it does not.

`MatMul(Transpose(x), v)` with a vector `v` becomes a FusedMatMul that treats `x` as if it were not transposed
(seen in 1.31, for matrices and batches, float and double, also with a Cast between the two). `MatMul(v, x)`
is the same product, without a transposition at all.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

__all__ = ["VectorProductsPass"]


class VectorProductsPass(ir.passes.InPlacePass):
    """Write the product of a transposed matrix (or batch of matrices) with a vector as vector times matrix.

    1. `MatMul(Transpose(x), v)`, where the last two axes are exchanged, becomes `MatMul(v, x)`.
    2. With another permutation, or a Cast after the Transpose, it becomes `MatMul(v, Transpose(...))`.
    3. A Transpose that nobody uses any more is dropped.
    """

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Apply the rules above, in the main graph, in subgraphs and in functions."""
        found = [node for graph in _all_graphs(model) for node in graph if _is_endangered(node)]
        for node in found:
            _swap(node)
        return ir.passes.PassResult(model, bool(found))


def _all_graphs(model: ir.Model) -> Iterator[ir.Graph]:
    for graph in (model.graph, *(function.graph for function in model.functions.values())):
        yield graph
        yield from graph.subgraphs()


def _rank(value: ir.Value | None) -> int:
    return -1 if value is None or value.shape is None else value.shape.rank()


def _transpose_before(value: ir.Value) -> ir.Node | None:
    """The Transpose that makes `value`, possibly with a Cast after it."""
    producer = value.producer()
    if producer is not None and producer.op_type == "Cast" and producer.domain == "" and producer.inputs[0] is not None:
        producer = producer.inputs[0].producer()
    return producer if producer is not None and (producer.domain, producer.op_type) == ("", "Transpose") else None


def _is_endangered(node: ir.Node) -> bool:
    if (node.domain, node.op_type) != ("", "MatMul") or _rank(node.inputs[1]) != 1 or _rank(node.inputs[0]) < 2:
        return False
    matrix = node.inputs[0]
    return matrix is not None and _transpose_before(matrix) is not None


def _swapped(rank: int) -> list[int]:
    return [*range(rank - 2), rank - 1, rank - 2]


def _swap(node: ir.Node) -> None:
    """A v = v Aᵀ: the vector first, and the matrix without its transposition or with a second one."""
    matrix, vector = node.inputs
    assert matrix is not None and matrix.shape is not None
    order = _swapped(matrix.shape.rank())
    producer = matrix.producer()
    if producer is not None and producer.op_type == "Transpose" and _order(producer) == order:
        plain = producer.inputs[0]
    else:
        plain = _transposed(node, matrix, order)
    node.replace_input_with(0, vector)
    node.replace_input_with(1, plain)
    if producer is not None and producer.op_type == "Transpose" and not matrix.uses() and not matrix.is_graph_output():
        graph = producer.graph
        assert graph is not None
        graph.remove(producer, safe=True)


def _order(transpose: ir.Node) -> list[int] | None:
    permutation = transpose.attributes.get("perm")
    return None if permutation is None else list(permutation.as_ints())


def _transposed(before: ir.Node, matrix: ir.Value, order: list[int]) -> ir.Value:
    assert matrix.shape is not None and before.graph is not None
    name = f"{before.outputs[0].name}_matrix"
    output = ir.Value(name=name, type=matrix.type, shape=ir.Shape([matrix.shape[i] for i in order]))
    node = ir.Node("", "Transpose", [matrix], [ir.AttrInt64s("perm", order)], outputs=[output], name=f"{name}_node")
    node.metadata_props.update(before.metadata_props)
    before.graph.insert_before(before, node)
    return output
