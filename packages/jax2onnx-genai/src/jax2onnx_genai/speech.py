"""`write_speech`: a folder for onnxruntime-genai of an encoder of sound and a decoder of text, as those of Whisper are."""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from jax2onnx_graph.errors import OptionError
from jax2onnx_runtime.folders import complete_folder

if TYPE_CHECKING:
    from jax2onnx_generation.decoders.declaration import Roles
    from jax2onnx_generation.texts.tokenizer_files import GivenTokenizer
    from jax2onnx_runtime.bundles.bundle import Bundle
    from jax2onnx_runtime.bundles.links import Link
    from jax2onnx_runtime.quantization import Mode

__all__ = ["write_speech"]

_ENCODER, _DECODER, _CONFIGURATION = "encoder.onnx", "decoder.onnx", "genai_config.json"


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
    from jax2onnx_generation.decoders.interface import decoder_interface
    from jax2onnx_generation.decoders.signature import decoder_signature
    from jax2onnx_generation.decoders.stacked_caches import with_separate_caches
    from jax2onnx_generation.texts.tokenizer_files import TokenizerFiles
    from jax2onnx_graph.saving.writing import save_model, save_text

    from jax2onnx_genai._configuration import speech_configuration
    from jax2onnx_genai._encoder import crossing, encoder_model, turned_inputs
    from jax2onnx_genai._grouped_queries import group_queries
    from jax2onnx_genai._in_place import check_in_place
    from jax2onnx_genai._options import HALF, check_dtype, checked_length, in_fewer_bits, special_tokens
    from jax2onnx_genai._speech_inputs import without_mask

    check_dtype(dtype)
    source, target = _encoder_and_decoder(bundle.links, list(bundle))
    encoder = bundle[source].model.clone()
    model = with_separate_caches(bundle[target].model, bundle[target].target)
    found = crossing(encoder, bundle.links)
    encoder_model(encoder, bundle[source].target, found)
    turned_inputs(model, found)
    is_half = not {quantize, dtype}.isdisjoint(HALF)
    fuse = None if is_half else functools.partial(group_queries, bundle[target].target)
    signature = decoder_signature(model, roles)
    decoder = decoder_interface(model, signature, bundle[target].target, fuse=fuse, beside=found.inputs)
    if decoder.is_shared:
        check_in_place(decoder.model)
    without_mask(decoder, found, bundle[target].target)
    files = None if tokenizer is None else TokenizerFiles.read(tokenizer)
    tokens = special_tokens(files, eos, bos, pad, decoder.vocabulary)
    length = checked_length(context_length, files, decoder)
    models = {
        name: in_fewer_bits(one, bundle[program], (quantize, dtype))
        for name, one, program in ((_ENCODER, encoder, source), (_DECODER, model, target))
    }
    with complete_folder(folder) as part:
        for name, one in models.items():
            save_model(one, part / name, external_data)
        save_text(speech_configuration(decoder, found, tokens, length, (_ENCODER, _DECODER)), part / _CONFIGURATION)
        if files is not None:
            files.write(part)
        names = sorted(file.name for file in part.iterdir())
    return [Path(folder) / name for name in names]


def _encoder_and_decoder(links: Sequence[Link], names: Sequence[str]) -> tuple[str, str]:
    """The program that all links come from, and the one that they go to."""
    sources, targets = {link.source for link in links}, {link.target for link in links}
    if len(names) != 2 or len(sources) != 1 or len(targets) != 1:
        raise OptionError(
            f"A folder for speech is made of an encoder and a decoder with links from the one to the other, and not of {', '.join(names)} "
            f"with {len(links)} links: Bundle({{'encode': …, 'decode': …}}, links={{'encode.memory': 'decode.memory'}})."
        )
    return sources.pop(), targets.pop()
