"""The parts of both kinds of folders: the decoder, what is said of its texts, and the files."""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from jax2onnx_generation.decoders.declaration import Roles
from jax2onnx_generation.decoders.interface import DecoderInterface, decoder_interface
from jax2onnx_generation.decoders.signature import decoder_signature
from jax2onnx_generation.decoders.stacked_caches import with_separate_caches
from jax2onnx_generation.texts.tokenizer_files import GivenTokenizer, SpecialTokens, TokenizerFiles
from jax2onnx_graph import ir
from jax2onnx_graph.saving.writing import save_model, save_text
from jax2onnx_runtime.folders import complete_folder
from jax2onnx_runtime.program import Program

from jax2onnx_genai._encoder import Crossing, turned_inputs
from jax2onnx_genai._grouped_queries import group_queries
from jax2onnx_genai._in_place import check_in_place
from jax2onnx_genai._options import checked_length, special_tokens

__all__ = ["TextOptions", "folder_decoder", "write_files"]

_CONFIGURATION = "genai_config.json"


def folder_decoder(
    program: Program, roles: Roles | None, *, is_half: bool, found: Crossing | None = None
) -> DecoderInterface:
    """A decoder with the inputs and outputs of the runtime; the program stays as it is.

    Args:
      program: the decoder, without its function.
      roles: which inputs and outputs are the tokens, positions, mask and logits, where their names do not tell.
      is_half: whether it is to be in half precision, to which ONNX Runtime's own operator for attention is not converted.
      found: what it takes from an encoder.
    """
    model = with_separate_caches(program.model, program.target, decoder_signature(program.model, roles))
    if found is not None:
        turned_inputs(model, found)
    fuse = None if is_half else functools.partial(group_queries, program.target)
    beside = () if found is None else found.inputs
    decoder = decoder_interface(model, decoder_signature(model, roles), program.target, fuse=fuse, beside=beside)
    if decoder.is_shared:
        check_in_place(decoder.model)
    return decoder


@dataclasses.dataclass(frozen=True)
class TextOptions:
    """The tokenizer, special tokens and length of the texts of a decoder.

    Attributes:
      files: those of the tokenizer; None without one.
      tokens: the special tokens.
      length: the most tokens of a text.
    """

    files: TokenizerFiles | None
    tokens: SpecialTokens
    length: int

    @classmethod
    def read(
        cls, tokenizer: GivenTokenizer | None, eos: int | Sequence[int] | None, bos: int | None, pad: int | None,
        context_length: int | None, decoder: DecoderInterface,
    ) -> TextOptions:  # fmt: skip
        """The texts of a decoder by the options of `write` and the files of its tokenizer."""
        files = None if tokenizer is None else TokenizerFiles.read(tokenizer)
        tokens = special_tokens(files, eos, bos, pad, decoder.vocabulary)
        return cls(files, tokens, checked_length(context_length, files, decoder))


def write_files(
    folder: str | os.PathLike[str], models: Mapping[str, ir.Model], configuration: str, tokenizer: TokenizerFiles | None,
    external_data: bool | None,
) -> list[Path]:  # fmt: skip
    """Write models by the names of their files, their configuration and the files of the tokenizer; the files of the folder."""
    with complete_folder(folder) as part:
        for name, model in models.items():
            save_model(model, part / name, external_data)
        save_text(configuration, part / _CONFIGURATION)
        if tokenizer is not None:
            tokenizer.write(part)
        names = sorted(file.name for file in part.iterdir())
    return [Path(folder) / name for name in names]
