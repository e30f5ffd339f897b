"""Tokenizers that need no package."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace

import pytest


class Bytes:
    """A tokenizer whose tokens are the bytes of UTF-8."""

    def encode(self, sequence: str, *, add_special_tokens: bool = True) -> SimpleNamespace:
        return SimpleNamespace(ids=list(sequence.encode()))

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        return bytes(ids).decode(errors="replace")

    def get_vocab_size(self, with_added_tokens: bool = True) -> int:
        return 256


class Words(Bytes):
    """A tokenizer of words, with a space between two of them."""

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        return " ".join(["zero", "one", "two", "three"][i] for i in ids)


@pytest.fixture
def tokenizer() -> Bytes:
    """A tokenizer whose tokens are the bytes of UTF-8."""
    return Bytes()


@pytest.fixture
def words() -> Words:
    """A tokenizer of words, with a space between two of them."""
    return Words()
