"""`Tokenizer`: from texts to tokens and back."""

from __future__ import annotations

import importlib
import os
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from jax2onnx_graph.errors import OptionError, ReadError

from jax2onnx_generation.texts.tokenizer_files import tokenizer_file

__all__ = ["Encoding", "Tokenizer", "read_tokenizer"]


class Encoding(Protocol):
    """The tokens of a text."""

    @property
    def ids(self) -> list[int]:
        """The ids of the tokens."""
        ...


@runtime_checkable
class Tokenizer(Protocol):
    """A tokenizer, as `tokenizers.Tokenizer` is one."""

    def encode(self, sequence: str, *, add_special_tokens: bool = True) -> Encoding:
        """The tokens of a text; with those that begin and end a text, where the tokenizer has any."""
        ...

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        """The text of tokens."""
        ...

    def get_vocab_size(self, with_added_tokens: bool = True) -> int:
        """Number of tokens."""
        ...


def read_tokenizer(given: object, vocabulary: int | None) -> Tokenizer:
    """The tokenizer that was given, or that is in the file that was given.

    Args:
      given: a `tokenizers.Tokenizer`, or the path of a `tokenizer.json` or of its folder.
      vocabulary: how many tokens the model has, if that is known.

    Raises:
      OptionError: it is no tokenizer, there is none, the package is not installed, or the tokenizer has more tokens than the model.
      ReadError: the file holds none.
    """
    tokenizer = _from_file(given) if isinstance(given, str | os.PathLike) else given
    if not isinstance(tokenizer, Tokenizer):
        raise OptionError(f"tokenizer is a tokenizers.Tokenizer or the path of a tokenizer.json, not {given!r:.80}.")
    size = tokenizer.get_vocab_size(with_added_tokens=True)
    if vocabulary is not None and size > vocabulary:
        raise OptionError(
            f"The tokenizer has {size} tokens, but the model has logits for {vocabulary}: it is the tokenizer of another model."
        )
    return tokenizer


def _from_file(given: str | os.PathLike[str]) -> object:
    try:
        tokenizers = importlib.import_module("tokenizers")
    except ModuleNotFoundError as error:
        raise OptionError(
            "Texts need the package tokenizers: pip install 'jax2onnx-generation[text]'. Without it, give and take ids."
        ) from error
    path = tokenizer_file(given)
    try:
        return tokenizers.Tokenizer.from_file(str(path))
    except Exception as error:  # the package raises no other class
        raise ReadError(f"{path} holds no tokenizer: {error}.") from error
