"""Products which ONNX Runtime's graph optimiser would fuse into something wrong, written so that it does not.

`MatMul(Transpose(x), v)` with a vector `v` becomes a FusedMatMul that treats `x` as if it were not transposed
(seen in 1.31, for matrices and batches, float and double, also with a Cast or a factor between the two). `MatMul(v, x)`
is the same product, without a transposition at all.

With a matrix in the place of the vector, the FusedMatMul is an error where a batch has no elements; the MatMul is not. In
half precision, where the Transpose of either operand moves an axis of the batch and both have not as many axes, loading the model ends
the process (seen in 1.31, with bfloat16 and with a Cast behind the Transpose in 1.32).
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir
from jax2onnx_graph.facts.values import LabelledDim, dims_of
from jax2onnx_graph.rewrite.editor import GraphEditor
from jax2onnx_graph.rewrite.pass_base import GraphPass
from jax2onnx_graph.rewrite.patterns import operation, permutation_of, scalar
from jax2onnx_graph.traversal import is_value_read

__all__ = ["TransposedProductsPass"]

_HALF = {ir.DataType.FLOAT16, ir.DataType.BFLOAT16}


class TransposedProductsPass(GraphPass):
    """Write products of transposed matrices so that they are not fused into something else.

    1. `MatMul(Transpose(x), v)` with a vector v, where the last two axes are exchanged, becomes `MatMul(v, x)`.
    2. With another permutation, or a Cast, a factor or a divisor after the Transpose, it becomes `MatMul(v, Transpose(...))`.
    3. A Transpose that nobody uses any more is dropped.
    4. In `MatMul(Transpose(x), w)` with a matrix w, and x of a batch that may be empty, an axis is added and taken away between the
       two: a Reshape to the shape that it has is dropped where that is known.
    5. So it is in half precision, on either side, where the Transpose moves axes of the batch and w has not as many axes.
    """

    def rewrite_graph(self, editor: GraphEditor) -> None:
        """Apply the rules above to one graph."""
        for node in editor.nodes():
            if node.domain or node.op_type != "MatMul":
                continue
            left = _transposed(node.inputs[0])
            if left is not None and _rank(left) > 1 and _rank(node.inputs[1]) == 1:
                _swap(editor, node, left)
            for index, matrix in enumerate(map(_transposed, node.inputs)):
                if matrix is not None and _is_mistaken(editor, node, index, matrix):
                    node.replace_input_with(index, _apart(editor, node, matrix))
                    editor.modified = True


def _transposed(value: ir.Value | None) -> ir.Value | None:
    """The value, if it is a Transpose, or made of one by operators that the optimiser looks through."""
    return None if _transpose_behind(value) is None else value


def _transpose_behind(value: ir.Value | None) -> ir.Node | None:
    """The Transpose that a value is made of by Casts and by factors and divisors that are numbers."""
    while value is not None:
        node = value.producer()
        if node is None or node.domain or node.op_type == "Transpose":
            return node if node is not None and not node.domain else None
        scaled = [operand for operand in node.inputs if scalar(operand) is None]
        if node.op_type not in ("Cast", "Mul", "Div") or len(scaled) != 1:
            return None
        value = scaled[0]
    return None


def _is_half_of_another_batch(matrix: ir.Value) -> bool:
    """Whether a transposed value is of half precision, before a Cast too, and its batch is not that of the value before."""
    transpose = _transpose_behind(matrix)
    batch = range(_rank(matrix) - 2)
    if transpose is None or permutation_of(transpose)[:-2] == tuple(batch):
        return False
    return not _HALF.isdisjoint({matrix.dtype, transpose.outputs[0].dtype})


def _is_mistaken(editor: GraphEditor, node: ir.Node, index: int, matrix: ir.Value) -> bool:
    """Rules 4 and 5: whether the fusion of a transposed operand with its product fails."""
    other = _rank(node.inputs[1 - index])
    if index == 0 and other == 2 and _may_be_empty(editor, dims_of(matrix) or ()):
        return True
    return other != _rank(matrix) and _is_half_of_another_batch(matrix)


def _apart(editor: GraphEditor, node: ir.Node, matrix: ir.Value) -> ir.Value:
    """The matrix behind operators that the optimiser does not look through."""
    b = editor.before(node)
    dims, first = b.dims(matrix), editor.ints([0])
    return b.op("Squeeze", b.op("Unsqueeze", matrix, first, dims=(1, *(dims or ()))), first, dims=dims)


def _may_be_empty(editor: GraphEditor, dims: Sequence[LabelledDim]) -> bool:
    """Whether the batch of matrices of these dimensions may be empty, as that of an expression is taken to be."""
    return any(editor.may_be_zero(d) or not (isinstance(d, int) or str(d.value).isidentifier()) for d in dims[:-2])


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
    if transpose is not None and transpose.graph is editor.graph and not is_value_read(matrix):
        editor.discard(transpose)
