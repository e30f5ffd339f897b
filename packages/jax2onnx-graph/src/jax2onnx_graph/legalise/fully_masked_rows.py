"""`FullyMaskedRowsPass`: queries whose keys are all masked by minus infinity give NaN."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from jax2onnx_graph._ir import ir
from jax2onnx_graph.facts.operators import ValueUse, facts_of
from jax2onnx_graph.facts.values import constant_tensor, dims_of, known, operand
from jax2onnx_graph.rewrite.editor import GraphEditor, labelled
from jax2onnx_graph.rewrite.pass_base import GraphPass
from jax2onnx_graph.rewrite.patterns import is_floating
from jax2onnx_graph.weights.absent import known_array

__all__ = ["FullyMaskedRowsPass"]

_MASK = 3  # an operand
_MOST = 64  # values that a mask is computed from which are looked at
_LARGEST = 1 << 24  # elements of a constant that is looked at
_USES = (ValueUse.MOVE, ValueUse.ORDER, ValueUse.RING)
#: Functions whose results are never infinite.
_BOUNDED = frozenset({"Atan", "Cos", "Erf", "HardSigmoid", "Sigmoid", "Sin", "Softmax", "Softsign", "Tanh"})


class FullyMaskedRowsPass(GraphPass):
    """Put NaN into the rows of the masks of `Attention` that are minus infinity throughout, where the target does not guarantee "inf":

    1. The softmax over such a row is NaN, and zero in some runtimes. A row of NaN is NaN in all of them.
    2. Masks that are constants without such a row stay, and so do those that are computed of finite numbers by operators that keep
       them so. What the caller gives may be infinite; products of matrices, and weights that are not there yet, are taken to be finite.
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
    return _may_be_infinite(mask)


def _may_be_infinite(value: ir.Value) -> bool:
    """Whether there may be infinities among the numbers of a value, as far as its computation shows."""
    seen: dict[ir.Value, None] = {}
    pending: list[ir.Value | None] = [value]
    while pending:
        one = pending.pop()
        if one is None or one in seen or not is_floating(one):
            continue
        seen[one] = None
        if (tensor := constant_tensor(one)) is not None:
            if tensor.size > _LARGEST:
                return True
            array = known_array(tensor)
            if array is not None and bool(np.isinf(array.astype(np.float64)).any()):
                return True
            continue
        operands = _operands_that_tell(one.producer())
        if operands is None or len(seen) > _MOST:
            return True
        pending += operands
    return False


def _operands_that_tell(node: ir.Node | None) -> Sequence[ir.Value | None] | None:
    """The operands of a node without infinities among which its results have none; None where its results may have some anyway."""
    if node is None or node.domain:
        return None
    facts = facts_of(node.op_type)
    if facts.is_matrix_product or node.op_type in _BOUNDED:
        return ()
    if node.op_type == "Div":
        divisor = known(node.inputs[1], _LARGEST)
        return node.inputs[:1] if divisor is not None and divisor.all() else None
    return node.inputs if facts.use in _USES or facts.converts or facts.keeps_float_type else None


def _with_nan(editor: GraphEditor, node: ir.Node, mask: ir.Value) -> ir.Value:
    """The mask, with NaN in the rows that are minus infinity throughout."""
    builder, dims = editor.before(node), labelled(dims_of(mask) or ())
    largest = builder.op.ReduceMax(mask, builder.ints([-1]), keepdims=1, dims=(*dims[:-1], 1))
    is_masked = builder.op.Equal(largest, builder.constant(-np.inf, like=mask), dims=(*dims[:-1], 1))
    return builder.op.Where(is_masked, builder.constant(np.nan, like=mask), mask, dims=dims)
