"""`FullyMaskedRowsPass`: queries whose keys are all masked by minus infinity give NaN."""

from __future__ import annotations

import numpy as np

from jax2onnx_graph._ir import ir
from jax2onnx_graph.facts.values import dims_of, known, operand
from jax2onnx_graph.rewrite.editor import GraphEditor, labelled
from jax2onnx_graph.rewrite.pass_base import GraphPass
from jax2onnx_graph.rewrite.patterns import scalar

__all__ = ["FullyMaskedRowsPass"]

_MASK = 3  # an operand
_DEPTH = 8  # nodes from a mask back to minus infinity
_LARGEST = 1 << 24  # elements of a constant mask that is looked at
_ELEMENTWISE = frozenset({
    "Add", "Cast", "Concat", "Expand", "Gather", "Identity", "Mul", "Reshape", "Slice", "Squeeze", "Sub", "Transpose", "Unsqueeze", "Where",
})  # fmt: skip


class FullyMaskedRowsPass(GraphPass):
    """Put NaN into the rows of the masks of `Attention` that are minus infinity throughout, where the target does not guarantee "inf":

    1. The softmax over such a row is NaN, and zero in some runtimes. A row of NaN is NaN in all of them.
    2. Masks that are constants without such a row stay, and so do those in whose computation there is no such number.
    3. Attentions with the same mask share the new one.
    """

    def rewrite_graph(self, editor: GraphEditor) -> None:
        """Apply the rules above to one graph."""
        made: dict[ir.Value, ir.Value] = {}
        for node in list(editor.nodes()):
            mask = operand(node, _MASK) if node.op_type == "Attention" else None
            if mask is None or node.domain or mask.dtype is None or not mask.dtype.is_floating_point():
                continue
            if self.target.keeps("Attention", mask.dtype.numpy(), "inf") or not _may_mask_rows(mask):
                continue
            if mask not in made:
                made[mask] = _with_nan(editor, node, mask)
            node.replace_input_with(_MASK, made[mask])


def _may_mask_rows(mask: ir.Value) -> bool:
    """Whether all numbers of a row may be minus infinity, as far as the computation of the mask shows."""
    array = known(mask, _LARGEST)
    if array is not None:
        return bool((array == -np.inf).all(-1).any())
    return _has_infinity(mask, _DEPTH)


def _has_infinity(value: ir.Value | None, depth: int) -> bool:
    """Whether there is minus infinity among the numbers that a mask is computed from."""
    array = known(value, _LARGEST)
    if array is not None:
        return array.dtype.kind != "b" and bool(np.isinf(array.astype(np.float64)).any())
    node = None if value is None else value.producer()
    if node is None or node.domain or not depth or node.op_type not in _ELEMENTWISE:
        return scalar(value) in (-np.inf, np.inf)
    return any(_has_infinity(operand, depth - 1) for operand in node.inputs)


def _with_nan(editor: GraphEditor, node: ir.Node, mask: ir.Value) -> ir.Value:
    """The mask, with NaN in the rows that are minus infinity throughout."""
    builder, dims = editor.before(node), labelled(dims_of(mask) or ())
    largest = builder.op.ReduceMax(mask, builder.ints([-1]), keepdims=1, dims=(*dims[:-1], 1))
    is_masked = builder.op.Equal(largest, builder.constant(-np.inf, like=mask), dims=(*dims[:-1], 1))
    return builder.op.Where(is_masked, builder.constant(np.nan, like=mask), mask, dims=dims)
