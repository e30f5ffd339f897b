"""The configuration of a folder: genai_config.json."""

from __future__ import annotations

import json

from jax2onnx_runtime.generation.decoder_interface import LOGITS, PAST, PRESENT, TOKENS, DecoderInterface

from jax2onnx_genai._tokenizer import SpecialTokens

__all__ = ["configuration"]


def configuration(decoder: DecoderInterface, tokens: SpecialTokens, context_length: int, model_file: str) -> str:
    """The text of genai_config.json.

    Args:
      decoder: the decoder.
      tokens: the special tokens; at least one ends a text.
      context_length: the most tokens of a prompt and its continuation.
      model_file: the name of the model's file.
    """
    names = [value.name for value in decoder.model.graph.inputs]
    inputs = {name: name for name in (TOKENS, "attention_mask", "position_ids") if name in names}
    inputs |= {f"past_{kind}_names": f"{PAST}.%d.{kind}" for kind in ("key", "value")}
    outputs = {"logits": LOGITS, **{f"present_{kind}_names": f"{PRESENT}.%d.{kind}" for kind in ("key", "value")}}
    eos = list(tokens.eos)
    model = {
        "type": "decoder",
        "bos_token_id": eos[0] if tokens.bos is None else tokens.bos,
        "eos_token_id": eos[0] if len(eos) == 1 else eos,
        "pad_token_id": eos[0] if tokens.pad is None else tokens.pad,
        "context_length": context_length,
        "vocab_size": decoder.vocabulary,
        "decoder": {
            "session_options": {"log_id": "onnxruntime-genai", "provider_options": []},
            "filename": model_file,
            "head_size": decoder.features,
            "hidden_size": decoder.heads * decoder.features,
            "num_attention_heads": decoder.heads,
            "num_hidden_layers": decoder.layers,
            "num_key_value_heads": decoder.heads,
            "inputs": inputs,
            "outputs": outputs,
        },
    }
    search: dict[str, object] = {
        "max_length": context_length,
        "do_sample": False,
        "num_beams": 1,
        "past_present_share_buffer": decoder.is_shared,
    }
    if decoder.takes_one_token:
        search["chunk_size"] = 1
    return json.dumps({"model": model, "search": search}, indent=2) + "\n"
