"""Tokenizers as files and objects."""

import json

import pytest
from folder_programs import written_tokenizer
from jax2onnx_graph.errors import OptionError, ReadError
from jax2onnx_transformersjs.tokenizer_files import TokenizerFiles


class Given:
    """A tokenizer as the package `tokenizers` has it."""

    def __init__(self, text):
        self.text = text

    def to_str(self, pretty=False):
        return self.text


def read(given, **special):
    return TokenizerFiles.read(given, special)


def settings(files):
    return json.loads(files.contents["tokenizer_config.json"])


def test_a_file_becomes_a_tokenizer_with_settings(tokenizer):
    files = read(tokenizer, pad="<pad>")
    assert [*files.contents] == ["tokenizer.json", "tokenizer_config.json"]
    assert settings(files)["pad_token"] == "<pad>"


def test_an_object_is_asked_for_its_file(tokenizer):
    assert read(Given(tokenizer.read_text())).tokens == read(tokenizer).tokens


def test_the_files_of_a_folder_come_along(tmp_path):
    written_tokenizer(tmp_path / "tokenizer.json", 5)
    (tmp_path / "special_tokens_map.json").write_text("{}")
    (tmp_path / "notes.txt").write_text("")
    (tmp_path / "tokenizer_config.json").write_text('{"eos_token": {"content": "</s>"}, "model_max_length": 12}')
    files = read(tmp_path)
    assert sorted(files.contents) == ["special_tokens_map.json", "tokenizer.json", "tokenizer_config.json"]
    assert settings(files)["model_max_length"] == 12
    assert files.number_of("eos") == 1


def test_special_tokens_that_are_named_go_before_those_of_the_settings(tmp_path):
    written_tokenizer(tmp_path / "tokenizer.json", 5)
    (tmp_path / "tokenizer_config.json").write_text('{"eos_token": "w3"}')
    assert read(tmp_path, eos="</s>").number_of("eos") == 1


def test_a_special_token_that_nobody_names_has_no_number(tokenizer):
    assert read(tokenizer).number_of("eos") is None


def test_added_tokens_count(tmp_path):
    file = written_tokenizer(tmp_path / "tokenizer.json", 5)
    whole = json.loads(file.read_text())
    whole["added_tokens"].append({"id": 40, "content": "<x>"})
    file.write_text(json.dumps(whole))
    assert read(file).size == 41


def test_the_pieces_of_a_unigram_model_are_numbered(tmp_path):
    file = tmp_path / "tokenizer.json"
    file.write_text(json.dumps({"model": {"type": "Unigram", "vocab": [["a", -1.0], ["b", -2.0]]}}))
    assert read(file).tokens == {"a": 0, "b": 1}


def test_a_special_token_that_is_none_is_refused(tokenizer):
    with pytest.raises(OptionError, match="no token '<eos>'"):
        read(tokenizer, eos="<eos>")


def test_a_folder_without_tokenizer_is_refused(tmp_path):
    with pytest.raises(OptionError, match="There is no tokenizer"):
        read(tmp_path)


def test_something_else_is_refused():
    with pytest.raises(OptionError, match="tokenizer is a folder, a file"):
        read(3)


@pytest.mark.parametrize(
    ("text", "message"), [("{", "is no JSON"), ("[]", "no JSON object"), ("{}", "no vocabulary"), ('{"model": {"vocab": 3}}', "no vocabulary")]
)  # fmt: skip
def test_a_file_of_another_form_is_refused(tmp_path, text, message):
    file = tmp_path / "tokenizer.json"
    file.write_text(text)
    with pytest.raises(ReadError, match=message):
        read(file)
