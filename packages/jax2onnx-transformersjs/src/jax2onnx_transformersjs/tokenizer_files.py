"""`TokenizerFiles`: the files of a tokenizer, read from where the user has them, and checked against the model."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from jax2onnx_graph.errors import OptionError, ReadError

__all__ = ["GivenTokenizer", "SerializableTokenizer", "TokenizerFiles"]

TOKENIZER, SETTINGS = "tokenizer.json", "tokenizer_config.json"
# What else belongs to a tokenizer, and is copied if it is there.
_FURTHER = (
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
    "chat_template.jinja",
)


@runtime_checkable
class SerializableTokenizer(Protocol):
    """A tokenizer of the package `tokenizers`."""

    def to_str(self, pretty: bool = False) -> str:
        """The content of `tokenizer.json`."""
        ...


#: The folder with the files of a tokenizer, a file `tokenizer.json`, or a `tokenizers.Tokenizer`.
GivenTokenizer = str | os.PathLike[str] | SerializableTokenizer


@dataclasses.dataclass(frozen=True)
class TokenizerFiles:
    """The files of a tokenizer.

    Attributes:
      contents: name → the content.
      tokens: token → its number, those of the vocabulary and the added ones.
    """

    contents: Mapping[str, bytes]
    tokens: Mapping[str, int]

    @classmethod
    def read(cls, given: GivenTokenizer, special: Mapping[str, str]) -> TokenizerFiles:
        """Read a tokenizer.

        Args:
          given: where it is.
          special: the special tokens that the user named, "eos" → "</s>"; these and the settings of the tokenizer, if it has
            none of its own, make its `tokenizer_config.json`.

        Raises:
          OptionError: there is no tokenizer, or a special token is none of its tokens.
          ReadError: a file is not what it should be.
        """
        contents = _contents(given)
        tokens = _tokens(contents[TOKENIZER])
        if unknown := [token for token in special.values() if token not in tokens]:
            raise OptionError(f"The tokenizer has no token {unknown[0]!r}.")
        settings: dict[str, object] = {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "clean_up_tokenization_spaces": False,
        }
        if SETTINGS in contents:
            settings = _json(SETTINGS, contents[SETTINGS])
        settings |= {f"{kind}_token": token for kind, token in special.items()}
        return cls({**contents, SETTINGS: json.dumps(settings, indent=2, ensure_ascii=False).encode()}, tokens)

    @property
    def size(self) -> int:
        """The numbers that tokens can have: one more than the largest."""
        return max(self.tokens.values(), default=-1) + 1

    def number_of(self, kind: str) -> int | None:
        """The number of a special token, such as "eos"; None where the settings name none."""
        token = _json(SETTINGS, self.contents[SETTINGS]).get(f"{kind}_token")
        if isinstance(token, Mapping):
            token = token.get("content")
        return self.tokens.get(token) if isinstance(token, str) else None

    def check_fits(self, vocabulary: int | None) -> None:
        """Raise OptionError if the tokenizer makes tokens that the model does not know."""
        if vocabulary is not None and self.size > vocabulary:
            token = max(self.tokens, key=lambda token: self.tokens[token])
            raise OptionError(
                f"The tokenizer does not fit the model: its token {token!r} has the number {self.tokens[token]}, and the model knows "
                f"{vocabulary} tokens."
            )


def _contents(given: GivenTokenizer) -> dict[str, bytes]:
    """The files of a tokenizer: name → the content."""
    if isinstance(given, SerializableTokenizer):
        return {TOKENIZER: given.to_str().encode()}
    if not isinstance(given, str | os.PathLike):
        raise OptionError(f"tokenizer is a folder, a file {TOKENIZER} or a tokenizers.Tokenizer, not {given!r:.80}.")
    path = Path(given)
    folder, file = (path, path / TOKENIZER) if path.is_dir() else (path.parent, path)
    if not file.is_file():
        raise OptionError(
            f"There is no tokenizer {file}. `tokenizer.save({TOKENIZER!r})` of the package tokenizers writes one."
        )
    names = [SETTINGS, *_FURTHER] if path.is_dir() else []
    others = {name: (folder / name).read_bytes() for name in names if (folder / name).is_file()}
    return {TOKENIZER: file.read_bytes(), **others}


def _tokens(content: bytes) -> dict[str, int]:
    """The tokens of a `tokenizer.json` with their numbers."""
    whole = _json(TOKENIZER, content)
    try:
        vocabulary = whole["model"]["vocab"]  # type: ignore[index]
        added: Sequence[Mapping[str, object]] = whole.get("added_tokens", ())  # type: ignore[assignment]
        pairs = (
            vocabulary.items() if isinstance(vocabulary, Mapping) else ((row[0], i) for i, row in enumerate(vocabulary))
        )
        found = {str(token): int(number) for token, number in pairs}
        return found | {str(entry["content"]): int(entry["id"]) for entry in added}  # type: ignore[call-overload]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ReadError(
            f"{TOKENIZER} has no vocabulary, or one of another form ({type(error).__name__}: {error})."
        ) from error


def _json(name: str, content: bytes) -> dict[str, object]:
    """The object in a JSON file."""
    try:
        whole = json.loads(content)
    except ValueError as error:
        raise ReadError(f"{name} is no JSON: {error}") from error
    if not isinstance(whole, dict):
        raise ReadError(f"{name} holds no JSON object.")
    return whole
