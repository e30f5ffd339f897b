"""`refuse_padding`: an error of the runtime in place of wrong texts, where a decoder cannot tell tokens from padding."""

from __future__ import annotations

import numpy as np
from jax2onnx_generation.decoders.interface import TOKENS, DecoderInterface
from jax2onnx_graph.opsets import opset_of
from jax2onnx_graph.rewrite.editor import GraphEditor
from jax2onnx_graph.targets import Target

__all__ = ["refuse_padding"]

#: The name of the node that fails, which ONNX Runtime's error shows.
_SAYS = "prompts_of_different_lengths_need_a_decoder_with_positions_B_T_and_a_mask_of_each_text"


def refuse_padding(decoder: DecoderInterface, target: Target) -> None:
    """Let a step end in an error of ONNX Runtime where its `attention_mask` has a zero; the model is changed.

    ONNX has no assertion: an index that is one beyond the only element of a constant stands for it.
    """
    graph = decoder.model.graph
    inputs = {value.name: value for value in graph.inputs}
    tokens, mask = inputs[TOKENS], inputs["attention_mask"]
    assert tokens.dtype is not None, "the inputs of a finished model have types"
    editor = GraphEditor(graph, opset=opset_of(decoder.model), target=target)
    readers = [use for use in tokens.uses() if use.node.op_type != "Shape"]
    at = editor.after(tokens)
    dtype = tokens.dtype.numpy()
    hidden = at.op.Sub(at.constant(1, dtype), at.op.ReduceMin(mask, keepdims=0, dims=()))
    one = at.op.Gather(at.constant(np.ones(1, dtype)), hidden, dims=())
    gather = one.producer()
    assert gather is not None, "it has just been made"
    gather.name = _SAYS
    checked = at.op.Mul(tokens, one)
    for node, index in readers:
        node.replace_input_with(index, checked)
    editor.finish()
