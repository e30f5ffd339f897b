"""Products which ONNX Runtime's graph optimiser would fuse into something wrong, written so that it does not.

`MatMul(Transpose(x), v)` with a vector `v` becomes a FusedMatMul that treats `x` as if it were not transposed
(seen in 1.31, for matrices and batches, float and double, also with a Cast between the two). `MatMul(v, x)`
is the same product, without a transposition at all.
"""

from __future__ import annotations

import onnx_ir as ir
from jax2onnx_graph.facts.values import dims_of
from jax2onnx_graph.rewrite.editor import GraphEditor
from jax2onnx_graph.rewrite.pass_base import GraphPass
from jax2onnx_graph.rewrite.patterns import operation

__all__ = ["VectorProductsPass"]


class VectorProductsPass(GraphPass):
    """Write the product of a transposed matrix (or batch of matrices) with a vector as vector times matrix.

    1. `MatMul(Transpose(x), v)`, where the last two axes are exchanged, becomes `MatMul(v, x)`.
    2. With another permutation, or a Cast after the Transpose, it becomes `MatMul(v, Transpose(...))`.
    3. A Transpose that nobody uses any more is dropped.
    """

    def rewrite(self, editor: GraphEditor) -> None:
        """Apply the rules above to one graph."""
        for node in editor.nodes():
            matrix = _transposed_matrix(node)
            if matrix is not None:
                _swap(editor, node, matrix)


def _transposed_matrix(node: ir.Node) -> ir.Value | None:
    """The matrix of a product with a vector, if it is a Transpose, or the Cast of one."""
    if node.domain or node.op_type != "MatMul" or _rank(node.inputs[1]) != 1 or _rank(node.inputs[0]) < 2:
        return None
    matrix = node.inputs[0]
    cast = operation(matrix, "Cast")
    return None if operation(matrix if cast is None else cast.inputs[0], "Transpose") is None else matrix


def _rank(value: ir.Value | None) -> int:
    return len(dims_of(value) or ())


def _swap(editor: GraphEditor, node: ir.Node, matrix: ir.Value) -> None:
    """A v = v Aᵀ: the vector first, and the matrix without its transposition or with a second one."""
    rank, vector = _rank(matrix), node.inputs[1]
    order = [*range(rank - 2), rank - 1, rank - 2]
    transpose = operation(matrix, "Transpose")
    if transpose is not None and list(transpose.attributes.get_ints("perm", ())) == order:
        plain = transpose.inputs[0]
    else:
        plain = editor.before(node).op("Transpose", matrix, perm=order)
    node.replace_input_with(0, vector)
    node.replace_input_with(1, plain)
    editor.modified = True
    if transpose is not None and transpose.graph is editor.graph and not matrix.uses() and not matrix.is_graph_output():
        editor.discard(transpose)
