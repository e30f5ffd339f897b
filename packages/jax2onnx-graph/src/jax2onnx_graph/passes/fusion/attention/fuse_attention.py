"""Recognise `Attention` in two products around a softmax."""

from __future__ import annotations

__all__ = ["FuseAttention"]

import math

import numpy as np

from jax2onnx_graph._ir import ir
from jax2onnx_graph.passes.fusion.attention._arrangement import Place, arranged, cheapest, cost
from jax2onnx_graph.passes.fusion.attention._axes import Axes, UnreadableError, resolved, size_of, through
from jax2onnx_graph.passes.fusion.attention._formula import FLOATS, Found, Operand, read
from jax2onnx_graph.passes.fusion.attention._masks import Masks
from jax2onnx_graph.passes.fusion.attention._roles import Roles, roles_of
from jax2onnx_graph.passes.fusion.fuse_softmax import FuseSoftmax
from jax2onnx_graph.passes.structural.remove_dead_nodes import RemoveDeadNodes
from jax2onnx_graph.rewrite.editor import GraphEditor, InsertionPoint, labelled
from jax2onnx_graph.rewrite.pass_base import GraphPass

_FLOAT32 = np.dtype(np.float32)


class FuseAttention(GraphPass):
    """Where a query, a key and a value meet as softmax(query · keyᵀ · c, ...) · value, with the axes B (batch), K and G
    (key heads, and query heads of each), T and S (sequences) and H (features) in any order in operands, logits and
    result, and the probabilities have no other reader:

    1. It is `Attention` of query, key and value, with c as its scale; c may stand at operands or logits.
    2. Keys and values that are repeated for the query heads are taken as they are before that.
    3. The form is the 3-D one, [B, ·, heads · H], or the 4-D one, [B, heads, ·, H]: whichever transposes fewer keys and
       values, then fewer of the others.
    4. `Where(mask, logits, number)`, the number large and negative, and sums with biases become its mask: a float
       one, so that a row without any allowed key attends to all keys alike, as in the formula. (Masked by minus
       infinity, such a row is NaN in the formula, and zero in some runtimes.)
    5. c · tanh(logits / c) is its soft cap.
    6. In half precision it is computed in single precision, as logits often are.
    """

    produces = frozenset({"Attention"})
    after = (FuseSoftmax, RemoveDeadNodes)

    def rewrite_graph(self, editor: GraphEditor) -> None:
        masks = Masks()
        if not editor.target.supports("Attention", _FLOAT32, editor.opset):
            return
        for node in list(editor.nodes()):
            if node.op_type not in ("MatMul", "Gemm") or node.domain or node.outputs[0].dtype not in FLOATS:
                continue
            found = read(node)
            if found is None or (found.cap and found.addends and not _masks_after_cap(editor)):
                continue
            try:
                _rewrite(editor, node, found, roles_of(found), masks)
            except UnreadableError:
                continue


def _masks_after_cap(editor: GraphEditor) -> bool:
    return editor.target.guarantees("Attention", _FLOAT32, "masked")


def _rewrite(editor: GraphEditor, node: ir.Node, found: Found, roles: Roles, masks: Masks) -> None:
    """Put `Attention` in the place of the product `node`."""
    builder, operands = editor.before(node), (found.query, found.key, found.value)
    merged = _is_merged(operands, roles)
    targets = roles.operands(merged=merged)
    places = [cheapest(operand.places, target) for operand, target in zip(operands, targets, strict=True)]
    scale = found.scale * math.prod(place.factor for place in places)
    if not scale > 0:
        raise UnreadableError("the scale is not positive")
    inputs = [_taken(builder, place, target) for place, target in zip(places, targets, strict=True)]
    added = masks.added(builder, found.addends, roles, inputs[:2])
    axes, features = roles.result(merged=merged), size_of(roles.features)
    assert isinstance(features, int)
    result = builder.op.Attention(
        *inputs,
        *([] if added is None else [added]),
        dims=labelled(list(map(size_of, axes))),
        q_num_heads=roles.query_heads if merged else None,
        kv_num_heads=roles.key_heads if merged else None,
        scale=None if math.isclose(scale, features**-0.5, rel_tol=1e-6) else scale,
        softcap=found.cap or None,
    )
    dtype = node.outputs[0].dtype
    assert dtype is not None
    _serve(editor, node, found.result, builder.cast(result, dtype.numpy()), axes)


# ------------------------------------------------------------------------------------------- operands


def _is_merged(operands: tuple[Operand, ...], roles: Roles) -> bool:
    """Whether the 3-D form is the one with fewer transposes."""

    def total(merged: bool) -> float:
        targets = roles.operands(merged=merged)
        query, key, value = (cost(cheapest(x.places, t), t) for x, t in zip(operands, targets, strict=True))
        return 1000 * (key + value) + query

    return total(True) <= total(False)


def _taken(builder: InsertionPoint, place: Place, target: Axes) -> ir.Value:
    return arranged(builder, builder.cast(place.value, np.float32), place.axes, target)


# --------------------------------------------------------------------------------------------- result


def _serve(editor: GraphEditor, node: ir.Node, axes: Axes, result: ir.Value, own: Axes) -> None:
    """Let all that reads `node`, whose result has these axes, read `result`, which has the axes `own`."""
    output = node.outputs[0]
    if resolved(axes) != resolved(own):
        for user, _ in output.uses():
            if _is_view(user) and (further := _through(user, axes)) is not None:
                _serve(editor, user, further, result, own)
        if not output.uses() and not output.is_graph_output():
            return
    try:
        editor.replace(node, arranged(editor.before(node), result, own, axes))
    except UnreadableError:
        return


def _is_view(node: ir.Node) -> bool:
    return not node.domain and node.op_type in ("Transpose", "Reshape", "Squeeze", "Unsqueeze", "Flatten")


def _through(node: ir.Node, axes: Axes) -> Axes | None:
    try:
        return through(node, axes)
    except UnreadableError:
        return None
