"""`write_speech`: a folder for onnxruntime-genai of an encoder of sound and a decoder of text, as those of Whisper are."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from jax2onnx_graph.errors import OptionError

if TYPE_CHECKING:
    from jax2onnx_generation.decoders.declaration import Roles
    from jax2onnx_generation.texts.tokenizer_files import GivenTokenizer
    from jax2onnx_runtime.bundles.bundle import Bundle
    from jax2onnx_runtime.bundles.links import Link
    from jax2onnx_runtime.quantization import Mode

__all__ = ["write_speech"]

_ENCODER, _DECODER = "encoder.onnx", "decoder.onnx"


def write_speech(
    bundle: Bundle, folder: str | os.PathLike[str], *, tokenizer: GivenTokenizer | None = None,
    eos: int | Sequence[int] | None = None, bos: int | None = None, pad: int | None = None, context_length: int | None = None,
    quantize: Mode | None = None, dtype: str | None = None, roles: Roles | None = None, external_data: bool | None = None,
) -> list[Path]:  # fmt: skip
    """Write a folder that onnxruntime-genai runs as one of Whisper: an encoder, a decoder, and their configuration.

    The encoder takes features [B, M, 3000] or [B, 3000, M], of which the runtime's processor of Whisper makes 3000 of half a
    minute of sound. What it hands over to the decoder are the links of the bundle: hidden states [B, 1500, D], or the keys and values of each layer,
    [B, 1500, N, H] or with the axes in another order, which are computed once then. The decoder is as `write` takes it.

    Args:
      bundle: the two programs, with the links from the outputs of the encoder to inputs of the decoder.
      folder: the folder, which does not exist or is empty.
      tokenizer: the folder of the tokenizer, whose files are copied, and that of the runtime's processor beside them.
      eos: the tokens that end a text; by default what the files of the tokenizer say.
      bos: the token with which a text begins; likewise, else the first of `eos`.
      pad: the token that fills up the shorter sequences of a batch; likewise.
      context_length: the most tokens of a prompt and its continuation; by default as in `write`.
      quantize: both models in fewer bits: "int4", "int8", …
      dtype: "float16" for weights, caches and logits in half precision.
      roles: which inputs and outputs of the decoder are the tokens, positions, mask and logits, where their names do not tell.
      external_data: whether the weights go to files beside the models; by default by their size.

    Returns:
      The files.

    Raises:
      OptionError: an option is wrong, or the programs are none that the runtime can run.
      SaveError: the folder has files in it, or writing failed; nothing is left half-written.
    """
    from jax2onnx_genai._configuration import speech_configuration
    from jax2onnx_genai._encoder import crossing, encoder_model
    from jax2onnx_genai._options import HALF, check_dtype, in_fewer_bits
    from jax2onnx_genai._parts import TextOptions, folder_decoder, write_files
    from jax2onnx_genai._speech_inputs import without_mask

    check_dtype(dtype)
    source, target = (bundle[name] for name in _encoder_and_decoder(bundle.links, list(bundle)))
    encoder = source.model.clone()
    found = crossing(encoder, bundle.links)
    encoder_model(encoder, source.target, found)
    decoder = folder_decoder(target, roles, is_half=not {quantize, dtype}.isdisjoint(HALF), found=found)
    without_mask(decoder, found, target.target)
    texts = TextOptions.read(tokenizer, eos, bos, pad, context_length, decoder)
    models = {
        name: in_fewer_bits(model, program, (quantize, dtype))
        for name, model, program in ((_ENCODER, encoder, source), (_DECODER, decoder.model, target))
    }
    text = speech_configuration(decoder, found, texts.tokens, texts.length, (_ENCODER, _DECODER))
    return write_files(folder, models, text, texts.files, external_data)


def _encoder_and_decoder(links: Sequence[Link], names: Sequence[str]) -> tuple[str, str]:
    """The program that all links come from, and the one that they go to."""
    sources, targets = {link.source for link in links}, {link.target for link in links}
    if len(names) != 2 or len(sources) != 1 or len(targets) != 1:
        raise OptionError(
            f"A folder for speech is made of an encoder and a decoder with links from the one to the other, and not of {', '.join(names)} "
            f"with {len(links)} links: Bundle({{'encode': …, 'decode': …}}, links={{'encode.memory': 'decode.memory'}})."
        )
    return sources.pop(), targets.pop()
