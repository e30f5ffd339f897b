"""Tokenizers: those that are given, and those in files."""

from __future__ import annotations

import importlib

import pytest
from jax2onnx_generation.texts.streams import TextStream
from jax2onnx_generation.texts.tokenizer import read_tokenizer
from jax2onnx_graph.errors import OptionError, ReadError


def test_a_tokenizer_of_more_tokens_is_that_of_another_model(tokenizer):
    with pytest.raises(OptionError, match="The tokenizer has 256 tokens, but the model has logits for 100"):
        read_tokenizer(tokenizer, 100)


def test_a_tokenizer_of_fewer_tokens_is_taken(tokenizer):
    assert read_tokenizer(tokenizer, 300) is tokenizer


def test_something_else_is_no_tokenizer():
    with pytest.raises(
        OptionError, match=r"tokenizer is a tokenizers\.Tokenizer or the path of a tokenizer\.json, not 3"
    ):
        read_tokenizer(3, None)


def test_a_missing_package_is_named_with_the_way_to_install_it(monkeypatch, tmp_path):
    def missing(name: str) -> None:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(OptionError, match=r"pip install 'jax2onnx-generation\[text\]'"):
        read_tokenizer(tmp_path / "tokenizer.json", None)


class TestFiles:
    """Files of the package itself."""

    @pytest.fixture(autouse=True)
    def _package(self):
        self.tokenizers = pytest.importorskip("tokenizers")

    def test_there_is_no_file(self, tmp_path):
        with pytest.raises(OptionError, match="There is no tokenizer"):
            read_tokenizer(tmp_path / "tokenizer.json", None)

    def test_a_file_holds_no_tokenizer(self, tmp_path):
        (tmp_path / "tokenizer.json").write_text("{}")
        with pytest.raises(ReadError, match=r"tokenizer\.json holds no tokenizer"):
            read_tokenizer(tmp_path / "tokenizer.json", None)

    def test_bytes_of_a_tokenizer_come_as_characters(self, tmp_path):
        package = self.tokenizers
        made = package.Tokenizer(package.models.BPE())
        made.pre_tokenizer = package.pre_tokenizers.ByteLevel(add_prefix_space=False)
        made.decoder = package.decoders.ByteLevel()
        alphabet = package.pre_tokenizers.ByteLevel.alphabet()
        made.train_from_iterator(["a text"], package.trainers.BpeTrainer(initial_alphabet=alphabet))
        made.save(str(tmp_path / "tokenizer.json"))
        tokenizer = read_tokenizer(str(tmp_path / "tokenizer.json"), None)
        text = "a text: Grüße, 日本語 👍"
        stream = TextStream(tokenizer)
        pieces = [stream.add(token) for token in tokenizer.encode(text).ids]
        assert "".join(pieces) + stream.rest() == text
        assert not any("\ufffd" in piece for piece in pieces)
