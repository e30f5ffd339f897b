"""`write`: a folder for onnxruntime-genai of an exported decoder; `writer`, the same for the command line."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jax2onnx_graph.options import check_flag
from jax2onnx_runtime.folders import FolderOption

if TYPE_CHECKING:
    from jax2onnx_generation.decoders.declaration import Roles
    from jax2onnx_generation.texts.tokenizer_files import GivenTokenizer
    from jax2onnx_runtime.program import Program
    from jax2onnx_runtime.quantization import Mode

__all__ = ["GenaiWriter", "write", "writer"]

_MODEL = "model.onnx"


def write(
    program: Program, folder: str | os.PathLike[str], *, tokenizer: GivenTokenizer | None = None,
    eos: int | Sequence[int] | None = None, bos: int | None = None, pad: int | None = None, context_length: int | None = None,
    quantize: Mode | None = None, dtype: str | None = None, roles: Roles | None = None, external_data: bool | None = None,
    last_logits: bool = False,
) -> list[Path]:  # fmt: skip
    """Write a folder that onnxruntime-genai runs: the model, its configuration, and the files of the tokenizer.

    The decoder takes tokens [B, T], and has its caches of keys and values as states: grown ones, or such of a fixed capacity, which
    are written at a position. In the folder its inputs are what the runtime feeds; positions, masks, and counters of the
    tokens until now are computed in the model from `attention_mask`.

    Args:
      program: the exported decoder, which stays as it is.
      folder: the folder, which does not exist or is empty.
      tokenizer: the folder of the tokenizer, whose files are copied, a `tokenizer.json`, or a `tokenizers.Tokenizer`; without one token
        ids are given to the runtime.
      eos: the tokens that end a text; by default what the files of the tokenizer say.
      bos: the token with which a text begins; likewise, else the first of `eos`.
      pad: the token that fills up the shorter sequences of a batch; likewise.
      context_length: the most tokens of a prompt and its continuation; by default the capacity of the caches or the number of
        positions, or what the files of the tokenizer say.
      quantize: the model in fewer bits: "int4", "int8", …
      dtype: "float16" for weights, caches and logits in half precision.
      roles: which inputs and outputs are the tokens, positions, mask and logits, where their names do not tell.
      external_data: whether the weights go to a file beside the model; by default by their size.
      last_logits: whether a prompt gets the logits of its last token alone, which takes less time and memory; the runtime's speculative
        decoding needs all.

    Returns:
      The files.

    Raises:
      OptionError: an option is wrong, or the program is no decoder that the runtime can run.
      SaveError: the folder has files in it, or writing failed; nothing is left half-written.
    """
    from jax2onnx_genai._configuration import configuration
    from jax2onnx_genai._last_logits import keep_last_logits
    from jax2onnx_genai._options import HALF, check_dtype, in_fewer_bits
    from jax2onnx_genai._padding import refuse_padding
    from jax2onnx_genai._parts import TextOptions, folder_decoder, write_files

    check_dtype(dtype)
    check_flag("last_logits", last_logits)
    portable = program.portable()
    decoder = folder_decoder(portable, roles, is_half=not {quantize, dtype}.isdisjoint(HALF))
    if not decoder.hides_padding and decoder.batch != 1:
        refuse_padding(decoder, portable.target)
    if last_logits:
        keep_last_logits(decoder, portable.target)
    texts = TextOptions.read(tokenizer, eos, bos, pad, context_length, decoder)
    model = in_fewer_bits(decoder.model, portable, (quantize, dtype))
    text = configuration(dataclasses.replace(decoder, model=model), texts.tokens, texts.length, _MODEL)
    return write_files(folder, {_MODEL: model}, text, texts.files, external_data)


class GenaiWriter:
    """Writes folders for onnxruntime-genai; see `write`."""

    description = "onnxruntime-genai"
    options: Sequence[FolderOption] = (
        FolderOption("tokenizer", Path, "The folder of the tokenizer.", metavar="DIR"),
        FolderOption("eos", int, "The id of a token that ends a text.", is_list=True),
        FolderOption("bos", int, "The id of the token with which a text begins."),
        FolderOption("pad", int, "The id of the token that fills up short sequences."),
        FolderOption("context_length", int, "The most tokens of a prompt and its continuation."),
        FolderOption("dtype", str, "The type of weights and caches.", choices=("float32", "float16")),
        FolderOption("quantize", str, "The model in fewer bits: int4, int8."),
        FolderOption("last_logits", bool, "Logits of the last token of a prompt alone."),
    )

    def write(self, program: Program, folder: str | os.PathLike[str], **options: Any) -> list[Path]:
        """Write a folder; the options are those of `write`."""
        return write(program, folder, **options)


writer = GenaiWriter()
