"""`Attention` on buffers that may be mostly empty, such as the caches of text that has just begun.

The kernel multiplies all keys with the query, and looks at the mask afterwards. Of 8192 places of 8 heads with 64 features one query
reads 256 in 0.12 instead of 2.2 ms, 4000 in 1.8. (`GroupQueryAttention` without new keys needs no copy of the filled part, but ends the
process in versions 1.27 to 1.30, and is refused by those before.)
"""

from __future__ import annotations

import dataclasses

import numpy as np
import onnx_ir as ir
from jax2onnx_graph.facts.values import constant_tensor, dims_of
from jax2onnx_graph.rewrite.editor import GraphEditor, labelled
from jax2onnx_graph.rewrite.pass_base import GraphPass

__all__ = ["PartlyFilledPass"]

_LEAST = 1024  # places of a buffer; below, attention takes little of the time of a model
_HIDDEN = -1e8  # a number that hides a key, whatever its logit is
_SEEN = (ir.DataType.BOOL, ir.DataType.FLOAT)  # the types of a mask
_UNKNOWN = ir.SymbolicDim(None)


@dataclasses.dataclass(frozen=True)
class _Extent:
    """The number of places of a buffer up to the last that a query sees, and whether these are few: vectors of one element."""

    filled: ir.Value
    is_short: ir.Value


class PartlyFilledPass(GraphPass):
    """Read the filled part of a buffer where that is less than half of it.

    1. `Attention(q, k, v, mask)` on a buffer with 1024 places or more and fewer queries, whose mask is computed, becomes
       `If(n < half, Attention(q, k[:n], v[:n], mask[:n]), Attention(q, k, v, mask))`: n is one more than the last place that
       some query sees. Where a query sees none, n is the whole length, since all keys are then averaged.
    2. Calls with the same mask share n.
    3. What is the whole of a graph, as in the second branch, stays.
    """

    def rewrite_graph(self, editor: GraphEditor) -> None:
        """Apply the rules above to one graph."""
        extents: dict[ir.Value, _Extent] = {}
        nodes = list(editor.nodes())
        for node in nodes if len(nodes) > 1 else ():
            if node.op_type != "Attention" or node.domain or not _reads_buffer(node):
                continue
            mask = node.inputs[3]
            assert mask is not None
            if mask not in extents:
                extents[mask] = _extent(editor, mask, node)
            _rewrite(editor, node, extents[mask])


def _reads_buffer(node: ir.Node) -> bool:
    """Whether few queries read the keys of a long buffer by a mask that is known at run time only."""
    inputs, dims = node.inputs, [dims_of(value) for value in node.inputs]
    plain = len(inputs) == 4 and len(node.outputs) == 1 and not node.attributes.get_int("is_causal", 0)
    if not plain or node.outputs[0].dtype != ir.DataType.FLOAT or not all(dims):
        return False
    mask = inputs[3]
    if mask is None or constant_tensor(mask) is not None or mask.dtype not in _SEEN:
        return False
    queries, keys, values, seen = ((known or ())[axis] for known, axis in zip(dims, (-2, -2, -2, -1), strict=True))
    if not isinstance(keys, int) or keys < _LEAST or not values == keys == seen:
        return False
    return not isinstance(queries, int) or 2 * queries <= keys


def _extent(editor: GraphEditor, mask: ir.Value, node: ir.Node) -> _Extent:
    """The places that the queries of an attention see by its mask."""
    builder, dims = editor.after(mask, node), labelled(dims_of(mask) or ())
    is_bool = mask.dtype == ir.DataType.BOOL
    # A NaN is not hidden.
    told = mask if is_bool else builder.op.LessOrEqual(mask, builder.constant(_HIDDEN, like=mask))
    search = builder.op.ArgMax if is_bool else builder.op.ArgMin
    last = search(builder.cast(told, np.int32), axis=-1, keepdims=0, select_last_index=1, dims=dims[:-1])
    is_one = all(dim == 1 for dim in dims[:-1])
    last = builder.op.Reshape(last, builder.ints([-1]), dims=labelled((1 if is_one else _UNKNOWN,)))
    if not is_one:
        last = builder.op.ReduceMax(last, keepdims=1, dims=(1,))
    places = dims[-1]
    assert isinstance(places, int)
    filled = builder.op.Add(last, builder.ints([1]))
    return _Extent(filled, builder.op.Less(filled, builder.ints([places // 2])))


def _rewrite(editor: GraphEditor, node: ir.Node, extent: _Extent) -> None:
    """Put the If in the place of `node`."""
    branches = {name: editor.alone(node) for name in ("then_branch", "else_branch")}
    put = editor.put(node, "If", [extent.is_short], branches)
    short, _ = editor.nested_in(put)
    (attention,) = short.nodes()
    builder = short.before(attention)
    for index, value in enumerate(attention.inputs[1:], 1):
        dims = dims_of(value) or ()
        axis = len(dims) - (1 if index == 3 else 2)
        part = labelled((*dims[:axis], _UNKNOWN, *dims[axis + 1 :]))
        attention.replace_input_with(
            index, builder.op.Slice(value, builder.ints([0]), extent.filled, builder.ints([axis]), dims=part)
        )
