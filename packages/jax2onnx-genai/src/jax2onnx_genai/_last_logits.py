"""`keep_last_logits`: a decoder that computes the logits of the last token of each sequence alone."""

from __future__ import annotations

import numpy as np
from jax2onnx_generation.decoders.interface import TOKENS, DecoderInterface
from jax2onnx_graph import ir
from jax2onnx_graph.build.builder import GraphBuilder, Value
from jax2onnx_graph.facts.operators import facts_of
from jax2onnx_graph.facts.values import constant_tensor, dims_of, same_dim
from jax2onnx_graph.opsets import opset_of
from jax2onnx_graph.passes.structural.remove_dead_nodes import RemoveDeadNodes
from jax2onnx_graph.rewrite.editor import GraphEditor, labelled
from jax2onnx_graph.targets import Target

__all__ = ["keep_last_logits"]


def keep_last_logits(decoder: DecoderInterface, target: Target) -> None:
    """Let a decoder return logits [B, 1, V] of the last token of each sequence that is no padding; the model is changed.

    The hidden states of that token are taken before the head: the product with the table of words, what is added to it, and
    functions of single logits, as far as nothing else reads what is between.
    """
    graph = decoder.model.graph
    logits, tokens = graph.outputs[0], next(value for value in graph.inputs if value.name == TOKENS)
    if (dims_of(logits) or ())[1] == 1:
        return
    editor = GraphEditor(graph, opset=opset_of(decoder.model), target=target)
    head = _head(logits, tokens)
    if not head:  # the logits are no result of a node that could take fewer rows
        editor.hand_over_output(logits, _last(editor, logits, tokens))
    else:
        node, index = head[-1]
        hidden = node.inputs[index]
        assert hidden is not None, "it has been followed"
        node.replace_input_with(index, _last(editor, hidden, tokens))
        for node, _ in reversed(head):
            _take_one_row(editor.before(node), node)
    editor.finish()
    RemoveDeadNodes(target)(decoder.model)


def _head(logits: Value, tokens: Value) -> list[tuple[ir.Node, int]]:
    """The nodes that compute logits of hidden states [B, T, D], each row by itself, the last one first, with their operands."""
    found: list[tuple[ir.Node, int]] = []
    count, value = 0, logits
    while (node := value.producer()) is not None and (value is logits or len(list(value.uses())) == 1):
        index = _row_operand(node)
        operand = None if index is None else node.inputs[index]
        if index is None or operand is None or (value is not logits and value.is_graph_output()):
            break
        found.append((node, index))
        value = operand
        if _is_by_token(value, tokens):
            count = len(found)
    return found[:count]


def _is_by_token(value: Value, tokens: Value) -> bool:
    dims, wanted = dims_of(value) or (), dims_of(tokens) or ()
    return len(dims) == 3 and all(map(same_dim, dims[:2], wanted))


def _row_operand(node: ir.Node) -> int | None:
    """The operand from each row of which a node computes a row of its result; None for other nodes."""
    if node.domain or len(node.outputs) != 1:
        return None
    computed = [i for i, value in enumerate(node.inputs) if value is not None and not _is_fixed(value)]
    if node.op_type == "Reshape":
        return 0 if _keeps_rows(node) else None
    if node.op_type in ("MatMul", "Gemm"):
        is_turned = "transA" in node.attributes and node.attributes["transA"].as_int()
        return 0 if computed == [0] and not is_turned and len(dims_of(node.inputs[1]) or ()) == 2 else None
    if len(computed) != 1 or (facts_of(node.op_type).elementwise is None and node.op_type not in ("Cast", "Identity")):
        return None
    others = [value for i, value in enumerate(node.inputs) if i != computed[0] and value is not None]
    return computed[0] if all(_is_of_one_row(value) for value in others) else None


def _is_fixed(value: Value) -> bool:
    """Whether a value is a constant, or computed of constants alone by one node, such as a transposed table."""
    node = value.producer()
    if node is None:
        return constant_tensor(value) is not None
    return bool(node.inputs) and all(one is not None and constant_tensor(one) is not None for one in node.inputs)


def _is_of_one_row(value: Value) -> bool:
    dims = dims_of(value)
    return dims is not None and all(dim == 1 for dim in dims[:-1])


def _keeps_rows(node: ir.Node) -> bool:
    """Whether a Reshape makes rows [B · T, D] of [B, T, D], or the other way round."""
    before, after = dims_of(node.inputs[0]) or (), dims_of(node.outputs[0]) or ()
    return {len(before), len(after)} == {2, 3} and isinstance(before[-1], int) and before[-1] == after[-1]


def _take_one_row(at: GraphBuilder, node: ir.Node) -> None:
    """Let a node of the head compute a row for each sequence instead of one for each token."""
    result = node.outputs[0]
    dims, batch = dims_of(result) or (), (dims_of(node.inputs[0]) or (1,))[0]
    middle = [1] if len(dims) == 3 else []
    if node.op_type == "Reshape":
        width = dims[-1]
        assert isinstance(width, int), "it has been looked at"
        node.replace_input_with(1, at.ints([-1, *middle, width]))
    elif node.op_type not in ("MatMul", "Gemm"):
        batch = next((d[0] for x in node.inputs if len(d := dims_of(x) or ()) == len(dims) and d[0] != 1), batch)
    result.shape = ir.Shape([batch, *middle, dims[-1]])


def _last(editor: GraphEditor, rows: Value, tokens: Value) -> Value:
    """Select from rows [B, T, D] that of the last token that is no padding by the mask, [B, 1, D]."""
    mask = next(value for value in editor.graph.inputs if value.name == "attention_mask")
    at = editor.after(rows)
    batch, (_, total) = (dims_of(rows) or ())[0], dims_of(mask) or (None, None)
    count, all_count = at.op.Shape(tokens, start=1, end=2), at.op.Shape(mask, start=1, end=2)
    one, zero = at.constant(1, np.int64), at.constant(0, np.int64)
    numbers = at.op.Range(one, at.op.Add(at.squeeze(all_count, [0]), one), one, dims=labelled([total or 1]))
    marked = at.op.Mul(at.cast(mask, np.int64), numbers, dims=labelled([batch, total or 1]))
    ends = at.op.ReduceMax(marked, at.ints([1]), keepdims=1, dims=labelled([batch, 1]))
    # The number of tokens until now, of which the step has the last ones.
    places = at.op.Sub(ends, at.op.Add(at.op.Sub(all_count, count), one), dims=labelled([batch, 1]))
    inside = at.op.Max(
        at.op.Min(places, at.op.Sub(count, one), dims=labelled([batch, 1])), zero, dims=labelled([batch, 1])
    )
    width = (dims_of(rows) or ())[-1]
    return at.op.GatherND(rows, at.unsqueeze(inside, [2]), batch_dims=1, dims=labelled([batch, 1, width]))
