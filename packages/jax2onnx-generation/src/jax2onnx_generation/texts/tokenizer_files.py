"""`TokenizerFiles`: the files of a tokenizer and of its model's configuration, read from where the user has them."""

from __future__ import annotations

import dataclasses
import functools
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from jax2onnx_graph.errors import OptionError, ReadError

__all__ = ["GivenTokenizer", "SerializableTokenizer", "SpecialTokens", "TokenizerFiles", "tokenizer_file"]

TOKENIZER, SETTINGS = "tokenizer.json", "tokenizer_config.json"
# What else belongs to a tokenizer, and is copied if it is there.
_FURTHER = (
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
    "tokenizer.model",
    "chat_template.jinja",
)
# What is read, and not copied: it describes the model that the tokenizer came with. The latter comes first.
_CONFIGURATIONS = ("config.json", "generation_config.json")
_SPECIAL = ("bos", "eos", "pad")


@runtime_checkable
class SerializableTokenizer(Protocol):
    """A tokenizer of the package `tokenizers`."""

    def to_str(self, pretty: bool = False) -> str:
        """The content of `tokenizer.json`."""
        ...


#: The folder with the files of a tokenizer, a file `tokenizer.json`, or a `tokenizers.Tokenizer`.
GivenTokenizer = str | os.PathLike[str] | SerializableTokenizer


@dataclasses.dataclass(frozen=True)
class SpecialTokens:
    """Ids of tokens that mean something to a runtime.

    Attributes:
      bos: that with which a text begins.
      eos: those that end it.
      pad: that which fills up the shorter sequences of a batch.
    """

    bos: int | None = None
    eos: tuple[int, ...] = ()
    pad: int | None = None

    def entries(self) -> dict[str, int | list[int]]:
        """The entries of a configuration, those that are known: "eos_token_id" is a list where several tokens end a text."""
        eos = [*self.eos] if len(self.eos) > 1 else next(iter(self.eos), None)
        found = {"bos_token_id": self.bos, "eos_token_id": eos, "pad_token_id": self.pad}
        return {name: number for name, number in found.items() if number is not None}


@dataclasses.dataclass(frozen=True)
class TokenizerFiles:
    """The files of a tokenizer, and what the configuration beside them says.

    Attributes:
      contents: name → the content of the files of the tokenizer.
      tokens: token → its number, those of the vocabulary and the added ones.
      configuration: the entries of config.json, and over them those of generation_config.json.
      named: the special tokens that the user named: "eos" → "</s>".
    """

    contents: Mapping[str, bytes]
    tokens: Mapping[str, int]
    configuration: Mapping[str, object] = dataclasses.field(default_factory=dict)
    named: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @classmethod
    def read(cls, given: GivenTokenizer, special: Mapping[str, str] | None = None) -> TokenizerFiles:
        """Read a tokenizer.

        Args:
          given: where it is.
          special: the special tokens that the user names, "eos" → "</s>"; these and the settings of the tokenizer, if it has
            none of its own, make its `tokenizer_config.json`.

        Raises:
          OptionError: there is no tokenizer, or a special token is none of its tokens.
          ReadError: a file is not what it should be.
        """
        contents, named = _contents(given), special or {}
        tokens = _tokens(contents[TOKENIZER])
        if unknown := [token for token in named.values() if token not in tokens]:
            raise OptionError(f"The tokenizer has no token {unknown[0]!r}.")
        configuration: dict[str, object] = {}
        for name in _CONFIGURATIONS:
            if name in contents:
                found = _json(name, contents.pop(name))
                configuration |= {key: value for key, value in found.items() if value is not None}
        settings: dict[str, object] = {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "clean_up_tokenization_spaces": False,
        }
        if SETTINGS in contents:
            settings = _json(SETTINGS, contents[SETTINGS])
        if named or SETTINGS not in contents:
            settings |= {f"{kind}_token": token for kind, token in named.items()}
            contents[SETTINGS] = json.dumps(settings, indent=2, ensure_ascii=False).encode()
        return cls(contents, tokens, configuration, named)

    @property
    def size(self) -> int:
        """The numbers that tokens can have: one more than the largest."""
        return max(self.tokens.values(), default=-1) + 1

    def special_tokens(self) -> SpecialTokens:
        """The special tokens: those that the user named, those of the configuration, and those of the tokenizer's settings."""
        bos, eos, pad = map(self._numbers, _SPECIAL)
        return SpecialTokens(next(iter(bos), None), tuple(eos), next(iter(pad), None))

    def _numbers(self, kind: str) -> list[int]:
        configured = self.configuration.get(f"{kind}_token_id")
        if kind not in self.named and configured is not None:
            numbers: list[object] = configured if isinstance(configured, list) else [configured]
            if wrong := [number for number in numbers if isinstance(number, bool) or not isinstance(number, int)]:
                raise ReadError(
                    f"The configuration beside the tokenizer has {kind}_token_id = {wrong[0]!r}, which is no number."
                )
            return [
                number for number in numbers if isinstance(number, int) and number >= 0
            ]  # -1 stands for none in configurations
        token = self._settings.get(f"{kind}_token")
        token = token.get("content") if isinstance(token, Mapping) else token
        return [self.tokens[token]] if isinstance(token, str) and token in self.tokens else []

    def context_length(self) -> int | None:
        """Context length that the files state; None where they state none."""
        for number in (
            self.configuration.get("max_position_embeddings"), self.configuration.get("n_positions"),
            self._settings.get("model_max_length"),
        ):  # fmt: skip
            # A tokenizer without a limit has a number beyond all lengths.
            if isinstance(number, int) and not isinstance(number, bool) and 0 < number < 2**31:
                return number
        return None

    @functools.cached_property
    def _settings(self) -> Mapping[str, object]:
        return _json(SETTINGS, self.contents[SETTINGS])

    def write(self, folder: Path) -> list[str]:
        """Write the files of the tokenizer into a folder; their names."""
        for name, content in self.contents.items():
            (folder / name).write_bytes(content)
        return [*self.contents]

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
    file = tokenizer_file(given)
    names = [SETTINGS, *_FURTHER, *_CONFIGURATIONS] if Path(given).is_dir() else []
    others = {name: (file.parent / name).read_bytes() for name in names if (file.parent / name).is_file()}
    return {TOKENIZER: file.read_bytes(), **others}


def tokenizer_file(given: str | os.PathLike[str]) -> Path:
    """The `tokenizer.json` that is given, or that is in the folder that is given. Raises OptionError where there is none."""
    path = Path(given)
    file = path / TOKENIZER if path.is_dir() else path
    if not file.is_file():
        raise OptionError(
            f"There is no tokenizer {file}. `tokenizer.save({TOKENIZER!r})` of the package tokenizers writes one, and `save_pretrained` of a "
            "fast tokenizer its folder."
        )
    return file


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
