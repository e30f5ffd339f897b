"""The configuration of a folder: genai_config.json."""

from __future__ import annotations

import json
from collections.abc import Mapping

from jax2onnx_generation.decoders.interface import LOGITS, PAST, PRESENT, TOKENS, DecoderInterface
from jax2onnx_generation.texts.tokenizer_files import SpecialTokens

from jax2onnx_genai._encoder import FEATURES, HIDDEN, MEMORY, PAST_CROSS, PRESENT_CROSS, Crossing
from jax2onnx_genai._speech_inputs import PAST_LENGTH

__all__ = ["configuration", "speech_configuration"]


def configuration(decoder: DecoderInterface, tokens: SpecialTokens, context_length: int, model_file: str) -> str:
    """The text of genai_config.json.

    Args:
      decoder: the decoder.
      tokens: the special tokens; at least one ends a text.
      context_length: the most tokens of a prompt and its continuation.
      model_file: the name of the model's file.
    """
    model = {
        **_tokens("decoder", decoder, tokens, context_length),
        "decoder": _decoder(decoder, model_file, decoder.heads, {}),
    }
    search = _search(decoder, context_length)
    if decoder.takes_one_token:
        search["chunk_size"] = 1
    return json.dumps({"model": model, "search": search}, indent=2) + "\n"


def speech_configuration(
    decoder: DecoderInterface, found: Crossing, tokens: SpecialTokens, context_length: int, files: tuple[str, str]
) -> str:
    """The text of genai_config.json for an encoder and a decoder.

    Args:
      decoder: the decoder.
      found: what it takes from the encoder.
      tokens: the special tokens; at least one ends a text.
      context_length: the most tokens of a prompt and its continuation.
      files: the names of the files of the encoder and of the decoder.
    """
    crossed = {f"cross_past_{kind}_names": PAST_CROSS.format(kind, "%d") for kind in ("key", "value")}
    handed = {f"cross_present_{kind}_names": PRESENT_CROSS.format(kind, "%d") for kind in ("key", "value")}
    inputs = {**(crossed if found.layers else {"encoder_hidden_states": MEMORY}), PAST_LENGTH: PAST_LENGTH}
    heads, features = found.heads or decoder.heads, decoder.features
    encoder = {
        "session_options": _OPTIONS,
        "filename": files[0],
        "head_size": features,
        # Beside keys and values the hidden states are empty.
        "hidden_size": 1 if found.layers else found.features,
        "num_attention_heads": heads,
        "num_hidden_layers": found.layers or decoder.layers,
        "num_key_value_heads": heads,
        "inputs": {FEATURES: FEATURES},
        "outputs": {"encoder_hidden_states": HIDDEN, **(handed if found.layers else {})},
    }
    model = {
        **_tokens("whisper", decoder, tokens, context_length),
        "encoder": encoder,
        "decoder": _decoder(decoder, files[1], heads, inputs),
    }
    return json.dumps({"model": model, "search": _search(decoder, context_length)}, indent=2) + "\n"


_OPTIONS: Mapping[str, object] = {"log_id": "onnxruntime-genai", "provider_options": []}


def _tokens(kind: str, decoder: DecoderInterface, tokens: SpecialTokens, context_length: int) -> dict[str, object]:
    eos = list(tokens.eos)
    return {
        "type": kind,
        "bos_token_id": eos[0] if tokens.bos is None else tokens.bos,
        "eos_token_id": eos[0] if len(eos) == 1 else eos,
        "pad_token_id": eos[0] if tokens.pad is None else tokens.pad,
        "context_length": context_length,
        "vocab_size": decoder.vocabulary,
    }


def _decoder(decoder: DecoderInterface, file: str, heads: int, further: Mapping[str, str]) -> dict[str, object]:
    names = [value.name for value in decoder.model.graph.inputs]
    inputs = {name: name for name in (TOKENS, "attention_mask", "position_ids") if name in names}
    inputs |= {f"past_{kind}_names": f"{PAST}.%d.{kind}" for kind in ("key", "value")}
    outputs = {"logits": LOGITS, **{f"present_{kind}_names": f"{PRESENT}.%d.{kind}" for kind in ("key", "value")}}
    return {
        "session_options": _OPTIONS,
        "filename": file,
        "head_size": decoder.features,
        "hidden_size": decoder.heads * decoder.features,
        "num_attention_heads": heads,
        "num_hidden_layers": decoder.layers,
        "num_key_value_heads": decoder.heads,
        "inputs": {**inputs, **further},
        "outputs": outputs,
    }


def _search(decoder: DecoderInterface, context_length: int) -> dict[str, object]:
    return {
        "max_length": context_length,
        "do_sample": False,
        "num_beams": 1,
        "past_present_share_buffer": decoder.is_shared,
    }
