"""`keep_last_logits`: a decoder that computes the logits of the last token of each sequence alone."""

from __future__ import annotations

import numpy as np
from jax2onnx_generation.decoders.interface import TOKENS, DecoderInterface
from jax2onnx_graph.build.builder import Value
from jax2onnx_graph.facts.values import dims_of
from jax2onnx_graph.opsets import opset_of
from jax2onnx_graph.passes import optimise
from jax2onnx_graph.rewrite.editor import GraphEditor, labelled
from jax2onnx_graph.targets import Target

__all__ = ["keep_last_logits"]


def keep_last_logits(decoder: DecoderInterface, target: Target) -> None:
    """Let a decoder return logits [B, 1, V] of the last token of each sequence that is no padding; the model is changed.

    `SinkSelections` moves the selection of that token in front of what computes the logits, as far as nothing else reads what is between.
    """
    graph = decoder.model.graph
    logits, tokens = graph.outputs[0], next(value for value in graph.inputs if value.name == TOKENS)
    if (dims_of(logits) or ())[1] == 1:
        return
    editor = GraphEditor(graph, opset=opset_of(decoder.model), target=target)
    editor.hand_over_output(logits, _last(editor, logits, tokens))
    editor.finish()
    optimise(decoder.model, target)


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
