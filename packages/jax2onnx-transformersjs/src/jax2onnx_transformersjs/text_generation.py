"""Text generation: `input_ids`, `attention_mask`, `position_ids` and caches → `logits` and the caches of the next step."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from jax2onnx_generation.decoders.interface import (
    LOGITS,
    PAST,
    PRESENT,
    TOKENS,
    DecoderInterface,
    decoder_interface,
)
from jax2onnx_generation.decoders.signature import decoder_signature
from jax2onnx_generation.texts.tokenizer_files import TokenizerFiles
from jax2onnx_graph import ir
from jax2onnx_graph.errors import OptionError
from jax2onnx_graph.facts.values import LabelledDim
from jax2onnx_graph.metadata import StatePair, write_states
from jax2onnx_runtime.boundary import Boundary
from jax2onnx_runtime.program import Program

from jax2onnx_transformersjs.task_model import TaskModel, check_apart, dims, rename_axes

__all__ = ["MODEL_TYPES", "text_generation"]

TASK = "text-generation"
# The entries of config.json from which transformers.js reads layers, heads and features, and the class of the model.
_LLAMA = ("num_hidden_layers", "num_attention_heads", "hidden_size")
_GPT2 = ("n_layer", "n_head", "n_embd")
_TYPES: Mapping[str, tuple[str, tuple[str, str, str]]] = {
    "llama": ("LlamaForCausalLM", _LLAMA), "mistral": ("MistralForCausalLM", _LLAMA), "qwen2": ("Qwen2ForCausalLM", _LLAMA),
    "qwen3": ("Qwen3ForCausalLM", _LLAMA), "gpt2": ("GPT2LMHeadModel", _GPT2),
}  # fmt: skip
#: The values of `model_type`. The first positions of the others, or their caches, are none of an exported decoder.
MODEL_TYPES = tuple(_TYPES)


def text_generation(
    program: Program, model_type: str | None, tokenizer: TokenizerFiles, context_length: int | None,
    roles: Mapping[str, str],
) -> TaskModel:  # fmt: skip
    """The decoder with the inputs and outputs of transformers.js' own decoders, and the files that say how to use it.

    The texts of a batch are padded. A decoder takes several of them if it has positions [B, T] and a mask with an axis of the batch;
    any other would see what pads them, or count it, and takes one text at a time.

    Args:
      program: the program: a decoder with its caches as states, see `decoder_interface`.
      model_type: one of `MODEL_TYPES`; "llama" by default.
      tokenizer: the tokenizer.
      context_length: the most tokens of a prompt and its continuation; by default what the model itself can tell, or
        the files of the tokenizer.
      roles: "tokens", "positions", "mask" or "logits" → the name of the input or output, where names and types do not tell.

    Raises:
      OptionError: the model is no decoder with caches that transformers.js can feed.
    """
    kind = model_type or MODEL_TYPES[0]
    if kind not in _TYPES:
        raise OptionError(
            f"model_type {kind!r}: decoders are written as {', '.join(MODEL_TYPES)}; \"llama\" does for any of them."
        )
    model = program.model.clone()
    made = decoder_interface(model, decoder_signature(model, roles), program.target)
    if made.takes_one_token:
        raise OptionError(
            "transformers.js gives a decoder its whole prompt at once, and this one takes one token: export it for any number, "
            "tokens (('B', 'T'), 'int32')."
        )
    boundary = Boundary(made.model, program.target)
    length = made.context_length(context_length, tokenizer.context_length())
    _replace_inputs(boundary, made, length, alone=not made.hides_padding)
    for name, value in boundary.old_outputs.items():
        boundary.new_output(name, _as_js_reads(boundary, value))
    finished = boundary.finish()
    pairs = [f"{number}.{half}" for number in range(made.layers) for half in ("key", "value")]
    grows = None if made.is_shared else 2
    write_states(finished, [StatePair(f"{PAST}.{pair}", f"{PRESENT}.{pair}", grows) for pair in pairs])
    special = tokenizer.special_tokens().entries()
    config = {**_config(kind, made, length), **special}
    generation = {"do_sample": False, **special}
    return TaskModel(finished, config, {"generation_config.json": generation}, made.vocabulary)


def _replace_inputs(boundary: Boundary, made: DecoderInterface, length: int | None, *, alone: bool) -> None:
    """Give the inputs the types and axes that transformers.js' have.

    Args:
      boundary: the decoder.
      made: what is known of it.
      length: the most tokens, if that is known; it is the capacity of caches that leave theirs open.
      alone: whether it takes one text at a time.
    """
    batch, count = dims(boundary.old_inputs[TOKENS])
    places = dims(boundary.old_inputs[f"{PAST}.0.key"])[2]
    if alone and isinstance(batch, int) and batch != 1:
        raise OptionError(
            f"The decoder always takes {batch} texts, which are padded to one length, and it has no positions [B, T] or no mask with an "
            "axis of the batch, without which it cannot tell what pads them: export it with these, or for one text."
        )
    if made.is_shared and length is None:
        raise OptionError(
            "The caches of the decoder have any capacity, and transformers.js gives them that which the model names: say "
            "context_length=…."
        )
    wanted: dict[str, LabelledDim] = {"batch_size": batch, "sequence_length": count, "past_sequence_length": places}
    check_apart(wanted)
    fixed = {1: batch} if alone else {}
    if made.is_shared and length is not None:
        fixed[length] = wanted.pop("past_sequence_length")
    boundary.rename_symbols({d.value: n for n, d in fixed.items() if isinstance(d, ir.SymbolicDim) and d.value})
    rename_axes(boundary, {name: dim for name, dim in wanted.items() if dim not in fixed.values()})
    for name, value in boundary.old_inputs.items():
        new = boundary.new_input(name, _js_type(value), dims(value))
        assert value.dtype is not None
        boundary.replace_input(name, boundary.front().cast(new, value.dtype.numpy()))


def _js_type(value: ir.Value) -> np.dtype[np.generic]:
    """The element type by which transformers.js feeds an input: it has 64 bits for tokens, and no bfloat16."""
    assert value.dtype is not None
    if value.dtype.is_integer():
        return np.dtype(np.int64)
    return np.dtype(np.float32) if value.dtype == ir.DataType.BFLOAT16 else value.dtype.numpy()


def _as_js_reads(boundary: Boundary, value: ir.Value) -> ir.Value:
    """An output of a type that transformers.js reads: the logits as float32."""
    wanted = np.dtype(np.float32) if value.name == LOGITS else _js_type(value)
    return boundary.behind(value).cast(value, wanted)


def _config(kind: str, made: DecoderInterface, length: int | None) -> dict[str, object]:
    """The entries of `config.json` about layers, heads and features."""
    name, keys = _TYPES[kind]
    numbers = (made.layers, made.heads, made.heads * made.features)
    config: dict[str, object] = {
        "model_type": kind,
        "architectures": [name],
        "vocab_size": made.vocabulary,
        "use_cache": True,
    }
    config |= dict(zip(keys, numbers, strict=True))
    if length is not None:
        config |= {"max_position_embeddings": length} | ({"n_positions": length} if kind == "gpt2" else {})
    return config if kind == "gpt2" else {**config, "num_key_value_heads": made.heads, "head_dim": made.features}
