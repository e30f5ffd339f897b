"""Text that comes token by token, and what ends it."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from jax2onnx_generation.texts.tokenizer import Tokenizer

__all__ = ["StopTexts", "TextStream"]

#: What decoders put in the place of bytes that are no character (yet).
_REPLACEMENT = "\ufffd"


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
        text = self._tokenizer.decode(self._ids[self._start :])
        # The first bytes of a character that further tokens complete are no text yet.
        return (given if text.startswith(given) else given.rstrip(_REPLACEMENT)), text


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
        """Number of characters at the end of the held text that may begin the stop text."""
        return next((n for n in range(min(len(text) - 1, len(self._held)), 0, -1) if self._held.endswith(text[:n])), 0)
