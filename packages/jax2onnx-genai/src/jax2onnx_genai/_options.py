"""Options of both kinds of folders, and their application to models."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from jax2onnx_generation.decoders.interface import DecoderInterface
from jax2onnx_generation.sampling import is_whole
from jax2onnx_generation.texts.tokenizer_files import SpecialTokens, TokenizerFiles
from jax2onnx_graph import ir
from jax2onnx_graph.errors import OptionError
from jax2onnx_runtime.program import Program
from jax2onnx_runtime.quantization import Mode, Quantization

__all__ = ["HALF", "check_dtype", "checked_length", "in_fewer_bits", "special_tokens"]

HALF = ("float16", "bfloat16")


def in_fewer_bits(model: ir.Model, program: Program, modes: Iterable[Mode | str | None]) -> ir.Model:
    """A model quantised by the runtime of its program, in one mode after the other; inputs and outputs in half precision, too."""
    for mode in modes:
        if mode is not None:
            request = Quantization(mode, keep_io_types=mode not in HALF)  # type: ignore[arg-type]  # it checks
            model = program.runtime.quantize(model, request, program.target)
    return model


def check_dtype(dtype: str | None) -> None:
    """Raise OptionError for a type that `write` does not take."""
    if dtype not in (None, "float32", "float16"):
        raise OptionError(f"dtype is 'float16', or None for that of the program; not {dtype!r}.")


def special_tokens(
    files: TokenizerFiles | None, eos: int | Sequence[int] | None, bos: int | None, pad: int | None, vocabulary: int
) -> SpecialTokens:
    """The special tokens, those that are given before those of the files, which have to fit the model."""
    if files is not None:
        files.check_fits(vocabulary)
    found = SpecialTokens() if files is None else files.special_tokens()
    ends = found.eos if eos is None else tuple(eos) if isinstance(eos, Sequence) else (eos,)
    tokens = SpecialTokens(found.bos if bos is None else bos, ends, found.pad if pad is None else pad)
    if not tokens.eos:
        raise OptionError("eos: give the id of the token that ends a text; no file of a tokenizer says which it is.")
    for name, ids in (("eos", tokens.eos), ("bos", [tokens.bos]), ("pad", [tokens.pad])):
        for number in ids:
            if number is not None and (not is_whole(number, 0) or number >= vocabulary):
                raise OptionError(f"{name}={number!r} is no id of the {vocabulary} tokens of the model.")
    return tokens


def checked_length(given: int | None, files: TokenizerFiles | None, decoder: DecoderInterface) -> int:
    """The most tokens of a text: as given, what the decoder has places and positions for, or what the files say; OptionError where none says it."""
    length = decoder.context_length(given, None if files is None else files.context_length())
    if length is None:
        raise OptionError("context_length: give the most tokens of a prompt and its continuation; no file says it.")
    return length
