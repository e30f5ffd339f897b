"""Tokenizers: from texts to tokens and back, piece by piece, and the ends of texts."""

from __future__ import annotations

import importlib
import os
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from jax2onnx_graph.errors import OptionError, ReadError

__all__ = ["Encoding", "StopTexts", "TextStream", "Tokenizer", "read_tokenizer"]

#: What decoders put in the place of bytes that are no character (yet).
_REPLACEMENT = "\ufffd"


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
        """How many tokens there are."""
        ...


def read_tokenizer(given: object, vocabulary: int | None) -> Tokenizer:
    """The tokenizer that was given, or that is in the file that was given.

    Args:
      given: a `tokenizers.Tokenizer`, or the path of a `tokenizer.json`.
      vocabulary: how many tokens the model has, if that is known.

    Raises:
      OptionError: it is no tokenizer, the package is not installed, or the tokenizer has more tokens than the model.
      ReadError: the file holds none.
    """
    tokenizer = _from_file(Path(given)) if isinstance(given, str | os.PathLike) else given
    if not isinstance(tokenizer, Tokenizer):
        raise OptionError(f"tokenizer is a tokenizers.Tokenizer or the path of a tokenizer.json, not {given!r:.80}.")
    size = tokenizer.get_vocab_size(with_added_tokens=True)
    if vocabulary is not None and size > vocabulary:
        raise OptionError(
            f"The tokenizer has {size} tokens, but the model has logits for {vocabulary}: it is the tokenizer of another model."
        )
    return tokenizer


def _from_file(path: Path) -> object:
    try:
        tokenizers = importlib.import_module("tokenizers")
    except ModuleNotFoundError as error:
        raise OptionError(
            "Texts need the package tokenizers: pip install 'jax2onnx-runtime[text]'. Without it, give and take ids."
        ) from error
    if not path.is_file():
        raise ReadError(f"There is no file {path}; tokenizer is the path of a tokenizer.json.")
    try:
        return tokenizers.Tokenizer.from_file(str(path))
    except Exception as error:  # the package raises no other class
        raise ReadError(f"{path} holds no tokenizer: {error}.") from error


class TextStream:
    """The text of tokens that come one by one: as much of it as further tokens do not change.

    Tokens are decoded together with those before them, since a space, or the bytes of a character, may depend on their neighbours.

    Args:
      tokenizer: the tokenizer.
      before: tokens before the first one, whose text is not given again.
    """

    def __init__(self, tokenizer: Tokenizer, before: Sequence[int] = ()) -> None:
        self._tokenizer, self._ids = tokenizer, list(before[-8:])
        self._start, self._read = 0, len(self._ids)

    def add(self, token: int) -> str:
        """The text that is certain with a further token; empty while its last character is not whole."""
        self._ids.append(token)
        known, text = self._texts()
        if text.endswith(_REPLACEMENT) or len(text) <= len(known):
            return ""
        self._start, self._read = self._read, len(self._ids)
        return text[len(known) :]

    def rest(self) -> str:
        """The text that was held back."""
        known, text = self._texts()
        self._start = self._read = len(self._ids)
        return text[len(known) :]

    def _texts(self) -> tuple[str, str]:
        """The text of the tokens from `start` on that were given, and of all."""
        given = self._tokenizer.decode(self._ids[self._start : self._read])
        return given, self._tokenizer.decode(self._ids[self._start :])


class StopTexts:
    """Text that comes in pieces, up to the first of several texts that ends it.

    Args:
      texts: the texts that end it.
    """

    def __init__(self, texts: Collection[str]) -> None:
        self._texts, self._held, self.found = tuple(texts), "", False

    def add(self, piece: str) -> str:
        """The text that is certain with a further piece; what may be the beginning of a stop text is held back."""
        self._held += piece
        places = [place for text in self._texts if (place := self._held.find(text)) >= 0]
        if places:
            self.found = True
            certain, self._held = self._held[: min(places)], ""
            return certain
        most = max((self._begun(text) for text in self._texts), default=0)
        certain, self._held = self._held[: len(self._held) - most], self._held[len(self._held) - most :]
        return certain

    def rest(self) -> str:
        """The text that was held back."""
        rest, self._held = self._held, ""
        return rest

    def _begun(self, text: str) -> int:
        """How many characters at the end of what is held may be the beginning of a stop text."""
        return next((n for n in range(min(len(text) - 1, len(self._held)), 0, -1) if self._held.endswith(text[:n])), 0)
