"""`without_mask`: a decoder of speech, which the runtime feeds tokens and caches, but no mask and no positions."""

from __future__ import annotations

import numpy as np
from jax2onnx_generation.decoders.interface import PAST, TOKENS, DecoderInterface
from jax2onnx_graph import ir
from jax2onnx_graph.errors import OptionError
from jax2onnx_graph.facts.values import dims_of
from jax2onnx_graph.opsets import opset_of
from jax2onnx_graph.passes import optimise
from jax2onnx_graph.rewrite.editor import GraphEditor, labelled
from jax2onnx_graph.targets import Target

from jax2onnx_genai._encoder import Crossing

__all__ = ["PAST_LENGTH", "without_mask"]

PAST_LENGTH = "past_sequence_length"


def without_mask(decoder: DecoderInterface, found: Crossing, target: Target) -> None:
    """Compute the mask and the positions of a decoder in its graph, and give what it has from the encoder its names.

    The number of tokens until now is the length of caches that grow, else the input `past_sequence_length`, [1].

    Raises:
      OptionError: the decoder has other layers or features than what the encoder hands over.
    """
    _check(decoder, found)
    graph = decoder.model.graph
    editor = GraphEditor(graph, opset=opset_of(decoder.model), target=target)
    inputs = {value.name: value for value in graph.inputs}
    tokens, caches = inputs[TOKENS], inputs[f"{PAST}.0.key"]
    if decoder.is_shared:
        past = ir.Value(name=PAST_LENGTH, type=ir.TensorType(ir.DataType.INT32), shape=ir.Shape([1]))
        graph.inputs.append(past)
        at = editor.after(tokens)
        before = at.cast(past, np.int64)
    else:
        at = editor.after(tokens)
        before = at.op.Shape(caches, start=2, end=3)
    batch, length = (at.op.Shape(tokens, start=i, end=i + 1) for i in (0, 1))
    total = at.op.Add(before, length)
    assert tokens.dtype is not None, "the inputs of a finished model have types"
    dtype = tokens.dtype.numpy()
    if mask := inputs.get("attention_mask"):
        sizes = at.op.Concat(batch, total, axis=0)
        editor.replace_value(mask, at.op.Expand(at.constant(1, dtype), sizes, dims=labelled(dims_of(mask) or ())))
        graph.inputs.remove(mask)
    if positions := inputs.get("position_ids"):
        dims = dims_of(positions) or ()
        places = at.op.Range(
            at.squeeze(before, [0]), at.squeeze(total, [0]), at.constant(1, np.int64), dims=labelled(dims[1:])
        )
        row = at.unsqueeze(at.cast(places, dtype), [0])
        sizes = at.op.Concat(batch, length, axis=0)
        editor.replace_value(positions, at.op.Expand(row, sizes, dims=labelled(dims)))
        graph.inputs.remove(positions)
    for value in graph.inputs:
        value.name = found.inputs.get(value.name or "", value.name)
    editor.finish()
    optimise(decoder.model, target)


def _check(decoder: DecoderInterface, found: Crossing) -> None:
    if decoder.takes_one_token:
        raise OptionError(
            "The decoder takes one token at a time, and the runtime feeds a whole prompt to decoders of speech: export with a symbol, "
            "such as (('B', 'T'), 'int32')."
        )
    if found.layers not in (0, decoder.layers) or (found.layers and found.features != decoder.features):
        raise OptionError(
            f"The decoder has {decoder.layers} layers with heads of {decoder.features} features, and the encoder hands over "
            f"{found.layers} pairs of keys and values with heads of {found.features}; the runtime has one number for both."
        )
