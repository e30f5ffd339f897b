"""Tokenizers as files and objects."""

import json

import pytest
from jax2onnx_generation.texts.tokenizer_files import SpecialTokens, TokenizerFiles
from jax2onnx_graph.errors import OptionError, ReadError


class Given:
    """A tokenizer as the package `tokenizers` has it."""

    def __init__(self, text):
        self.text = text

    def to_str(self, pretty=False):
        return self.text


def written_tokenizer(file, size):
    """The file of a tokenizer of so many words: <pad>, </s>, w2, …"""
    words = ["<pad>", "</s>", *(f"w{i}" for i in range(2, size))]
    model = {"type": "WordLevel", "vocab": {word: i for i, word in enumerate(words)}, "unk_token": "<pad>"}
    added = [{"id": 1, "content": "</s>", "special": True}]
    file.write_text(json.dumps({"version": "1.0", "model": model, "added_tokens": added}))
    return file


@pytest.fixture
def tokenizer(tmp_path):
    return written_tokenizer(tmp_path / "tokenizer.json", 11)


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
    assert files.special_tokens().eos == (1,)


def with_configuration(tmp_path, **entries):
    """The files of a tokenizer whose token w4 ends a text, beside a configuration."""
    written_tokenizer(tmp_path / "tokenizer.json", 5)
    (tmp_path / "tokenizer_config.json").write_text('{"eos_token": "w4", "pad_token": "<pad>", "model_max_length": 9}')
    for name, content in entries.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    return read(tmp_path)


def test_all_tokens_that_end_a_text_are_read(tmp_path):
    files = with_configuration(tmp_path, generation_config={"eos_token_id": [1, 3]}, config={"eos_token_id": 2})
    assert files.special_tokens() == SpecialTokens(eos=(1, 3), pad=0)
    assert files.special_tokens().entries() == {"eos_token_id": [1, 3], "pad_token_id": 0}


def test_a_number_below_zero_is_no_token(tmp_path):
    files = with_configuration(tmp_path, config={"pad_token_id": -1, "eos_token_id": [-1, 0], "bos_token_id": 0})
    assert files.special_tokens() == SpecialTokens(bos=0, eos=(0,), pad=None)


def test_a_configuration_without_numbers_leaves_the_settings(tmp_path):
    files = with_configuration(tmp_path, generation_config={"eos_token_id": None}, config={})
    assert files.special_tokens().entries() == {"eos_token_id": 4, "pad_token_id": 0}


def test_the_length_of_the_context_is_that_of_the_model_before_that_of_the_tokenizer(tmp_path):
    assert with_configuration(tmp_path).context_length() == 9
    assert with_configuration(tmp_path, config={"n_positions": 7}).context_length() == 7
    assert with_configuration(tmp_path, config={"max_position_embeddings": 8}).context_length() == 8


@pytest.mark.parametrize(
    ("number", "length"),
    [(1, 1), (2**31 - 1, 2**31 - 1), (0, None), (-1, None), (2**31, None), (10**30, None), (True, None), (9.0, None), ("9", None)],
)  # fmt: skip
def test_a_tokenizer_without_a_limit_says_no_length(tmp_path, number, length):
    written_tokenizer(tmp_path / "tokenizer.json", 5)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"model_max_length": number}))
    assert read(tmp_path).context_length() == length


def test_the_configuration_of_the_model_is_no_file_of_the_tokenizer(tmp_path):
    files = with_configuration(tmp_path, config={"eos_token_id": 2})
    assert sorted(files.contents) == ["tokenizer.json", "tokenizer_config.json"]


def test_a_special_token_that_is_no_number_is_refused(tmp_path):
    with pytest.raises(ReadError, match="eos_token_id = '</s>', which is no number"):
        with_configuration(tmp_path, config={"eos_token_id": "</s>"}).special_tokens()


def test_special_tokens_that_are_named_go_before_those_of_the_settings(tmp_path):
    written_tokenizer(tmp_path / "tokenizer.json", 5)
    (tmp_path / "tokenizer_config.json").write_text('{"eos_token": "w3"}')
    (tmp_path / "config.json").write_text('{"eos_token_id": 4}')
    assert read(tmp_path, eos="</s>").special_tokens().eos == (1,)


def test_a_special_token_that_nobody_names_has_no_number(tokenizer):
    assert read(tokenizer).special_tokens() == SpecialTokens()


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
