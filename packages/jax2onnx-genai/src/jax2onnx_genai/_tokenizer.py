"""The files of a tokenizer, and the special tokens that they name."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from jax2onnx_graph.errors import OptionError, ReadError

__all__ = ["SpecialTokens", "TokenizerFiles"]

# Those that a tokenizer is made of; the first two are needed.
_FILES = (
    "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.json", "merges.txt",
    "tokenizer.model", "chat_template.jinja",
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class SpecialTokens:
    """Ids of tokens that mean something to the runner.

    Attributes:
      bos: that with which a text begins.
      eos: those that end it.
      pad: that which fills up the shorter sequences of a batch.
    """

    bos: int | None = None
    eos: Sequence[int] = ()
    pad: int | None = None


@dataclasses.dataclass(frozen=True)
class TokenizerFiles:
    """The folder of a tokenizer, as Hugging Face's libraries save it.

    Attributes:
      folder: the folder.
    """

    folder: Path

    @classmethod
    def of(cls, folder: Path, vocabulary: int) -> TokenizerFiles:
        """The files in a folder.

        Args:
          folder: the folder.
          vocabulary: the number of logits that a model has for a token.

        Raises:
          OptionError: there are none, or the tokenizer has ids for which there are no logits.
          ReadError: a file is none of a tokenizer.
        """
        found = cls(folder)
        if missing := [name for name in _FILES[:2] if not (folder / name).is_file()]:
            raise OptionError(
                f"tokenizer: there is no {missing[0]} in {folder}. Give the folder that `save_pretrained` of a fast tokenizer writes."
            )
        if (largest := max(found.ids().values(), default=-1)) >= vocabulary:
            raise OptionError(
                f"tokenizer: {folder} has ids up to {largest}, but the model has logits for {vocabulary} tokens only: it is the tokenizer of "
                "another model."
            )
        return found

    def files(self) -> list[Path]:
        """The files that are there."""
        return [path for name in _FILES if (path := self.folder / name).is_file()]

    def ids(self) -> dict[str, int]:
        """Token → id."""
        content = self._json("tokenizer.json")
        model, added = content.get("model"), content.get("added_tokens")
        vocabulary = model.get("vocab") if isinstance(model, Mapping) else None
        words: dict[str, int] = {}
        if isinstance(vocabulary, Mapping):
            words.update({str(word): int(number) for word, number in vocabulary.items()})
        elif isinstance(vocabulary, list):  # of pairs of a token and its score, in the order of the ids
            words.update({str(entry[0]): number for number, entry in enumerate(vocabulary)})
        for entry in added if isinstance(added, list) else []:
            words[str(entry["content"])] = int(entry["id"])
        return words

    def special_tokens(self) -> SpecialTokens:
        """The special tokens that the files name: generation_config.json and config.json, where they are, before the tokenizer's own."""
        found: dict[str, object] = {}
        for name in ("config.json", "generation_config.json"):
            if (self.folder / name).is_file():
                content = self._json(name)
                found.update({key: content[key] for key in _IDS if content.get(key) is not None})
        named, ids = self._json("tokenizer_config.json"), self.ids()
        for key in _IDS:
            token = named.get(key.removesuffix("_id"))
            token = token.get("content") if isinstance(token, Mapping) else token
            if isinstance(token, str) and token in ids:
                found.setdefault(key, ids[token])
        bos, eos, pad = (_as_ids(found.get(key)) for key in _IDS)
        return SpecialTokens(next(iter(bos), None), eos, next(iter(pad), None))

    def context_length(self) -> int | None:
        """How many tokens the files say that the model may see; None where they do not say."""
        if (self.folder / "config.json").is_file():
            number = self._json("config.json").get("max_position_embeddings")
            if isinstance(number, int):
                return number
        number = self._json("tokenizer_config.json").get("model_max_length")
        return number if isinstance(number, int) and number < 2**31 else None

    def _json(self, name: str) -> Mapping[str, object]:
        path = self.folder / name
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ReadError(f"tokenizer: {path} cannot be read: {error}.") from error
        if not isinstance(content, dict):
            raise ReadError(f"tokenizer: {path} holds no JSON object.")
        return content


_IDS = ("bos_token_id", "eos_token_id", "pad_token_id")


def _as_ids(value: object) -> list[int]:
    numbers = value if isinstance(value, list) else [value]
    return [number for number in numbers if isinstance(number, int)]
