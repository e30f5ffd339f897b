"""The folder as a whole: precisions, what configurations say of them, and what is refused."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from folder_programs import classifier, classify, encoder, run
from jax2onnx_graph.errors import OptionError, SaveError
from jax2onnx_transformersjs import write, writing
from jax2onnx_transformersjs.writer import writer


def written(folder, *dtypes, **options):
    return write(classifier(), folder, "image-classification", dtypes=dtypes or ("fp32",), **options)


def config(folder):
    return json.loads((folder / "config.json").read_text())


def test_the_files_that_were_written_are_returned(tmp_path):
    folder = tmp_path / "f"
    found = written(folder, "fp32", "q8")
    assert sorted(found) == sorted(file for file in folder.rglob("*") if file.is_file())
    assert {str(file.relative_to(folder)) for file in found} == {
        "onnx/model.onnx", "onnx/model_quantized.onnx", "config.json", "preprocessor_config.json",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("dtype", "file", "tolerance"),
    [
        ("fp32", "model.onnx", 1e-5), ("fp16", "model_fp16.onnx", 5e-3), ("q8", "model_quantized.onnx", 5e-2),
        ("q4", "model_q4.onnx", 0.2), ("q4f16", "model_q4f16.onnx", 0.2),
    ],
)  # fmt: skip
def test_each_precision_is_a_file_that_takes_and_gives_float32(tmp_path, dtype, file, tolerance):
    written(tmp_path / "f", dtype)
    given = np.random.default_rng(0).standard_normal((2, 3, 16, 12)).astype(np.float32)
    found = run(tmp_path / "f" / "onnx" / file, pixel_values=given)["logits"]
    want = np.asarray(classify(jnp.asarray(given.transpose(0, 2, 3, 1))))
    np.testing.assert_allclose(found, want, atol=tolerance * np.abs(want).max())


@pytest.mark.parametrize(
    ("dtypes", "expected"), [(("fp32",), "fp32"), (("q8",), "q8"), (("q4", "fp32"), "q4"), (("fp32", "q8"), None)]
)
def test_the_configuration_names_a_precision_where_the_default_of_a_device_is_missing(tmp_path, dtypes, expected):
    written(tmp_path / "f", *dtypes)
    assert config(tmp_path / "f").get("transformers.js_config", {}).get("dtype") == expected


def test_the_weights_of_a_large_model_are_in_a_file_that_the_configuration_names(tmp_path, monkeypatch):
    monkeypatch.setattr(writing, "_SINGLE_FILE_LIMIT", 100)
    monkeypatch.setattr("jax2onnx_graph.saving.writing.LARGE", 1)
    program = writing_large()
    found = write(program, tmp_path / "f", "image-classification")
    assert tmp_path / "f" / "onnx" / "model.onnx_data" in found
    assert config(tmp_path / "f")["transformers.js_config"]["use_external_data_format"] == {"model.onnx": 1}
    given = np.ones((1, 3, 16, 16), np.float32)
    assert run(tmp_path / "f" / "onnx" / "model.onnx", pixel_values=given)["logits"].shape == (1, 4)


def writing_large():
    from jax2onnx_core import to_onnx

    weights = np.random.default_rng(0).standard_normal((768, 4)).astype(np.float32)
    return to_onnx(lambda x: x.reshape(x.shape[0], -1) @ weights, [("B", 16, 16, 3)])


def test_a_model_type_that_is_given_has_no_class_of_another(tmp_path):
    written(tmp_path / "f", model_type="resnet")
    assert config(tmp_path / "f")["model_type"] == "resnet"
    assert "architectures" not in config(tmp_path / "f")


def test_further_entries_of_the_configuration_count(tmp_path):
    written(tmp_path / "f", config={"problem_type": "single_label_classification"})
    assert config(tmp_path / "f")["problem_type"] == "single_label_classification"


def test_a_quantized_program_from_another_process_is_written_too(tmp_path):
    write(classifier().portable(), tmp_path / "f", "image-classification")
    assert (tmp_path / "f" / "onnx" / "model.onnx").is_file()


@pytest.mark.parametrize(
    ("task", "options", "message"),
    [
        ("translation", {}, "There is no task 'translation'; the tasks are"),
        ("image-classification", {"tokenizer": "t"}, "tokenizer is no option of the task 'image-classification'"),
        ("feature-extraction", {"labels": ["a"]}, "labels is no option of the task 'feature-extraction'"),
        ("feature-extraction", {}, "begins with text: give the tokenizer"),
        ("image-classification", {"dtypes": "fp32"}, "dtypes is a list of precisions"),
        ("image-classification", {"dtypes": ["int8"]}, "There is no dtype 'int8'"),
        ("image-classification", {"dtypes": []}, "at least one"),
        ("image-classification", {"dtypes": ["fp32", "fp32"]}, "once"),
    ],
)
def test_wrong_options_are_refused_and_leave_nothing(tmp_path, task, options, message):
    with pytest.raises(OptionError, match=message):
        write(classifier(), tmp_path / "f", task, **options)
    assert [*tmp_path.iterdir()] == []


def test_an_unknown_kind_of_special_token_is_refused(tmp_path, tokenizer):
    with pytest.raises(OptionError, match="there is no kind 'end'"):
        write(encoder(), tmp_path / "f", "feature-extraction", tokenizer=tokenizer, special_tokens={"end": "</s>"})


def test_a_folder_that_exists_is_left_as_it_is(tmp_path):
    (tmp_path / "f").mkdir()
    (tmp_path / "f" / "mine.txt").write_text("mine")
    with pytest.raises(SaveError, match="it exists"):
        written(tmp_path / "f")
    assert [file.name for file in (tmp_path / "f").iterdir()] == ["mine.txt"]


def test_a_precision_that_cannot_be_made_leaves_nothing(tmp_path):
    from jax2onnx_core import to_onnx

    program = to_onnx(lambda x: jax.nn.relu(x).mean((1, 2)), [("B", 8, 8, 3)])
    with pytest.raises(OptionError):
        write(program, tmp_path / "f", "image-classification", dtypes=["fp32", "q4"])
    assert [*tmp_path.iterdir()] == []


def test_the_program_stays_as_it_is(tmp_path):
    before = classifier().model_proto.SerializeToString()
    written(tmp_path / "f", "fp32", "q8")
    assert classifier().model_proto.SerializeToString() == before


# -- the command line -----------------------------------------------------------------------------


def test_the_command_line_gives_images_and_labels_as_options(tmp_path):
    labels = tmp_path / "labels.txt"
    labels.write_bytes("\ufeffa\r\nb\x0b\nc\u2028\nd\nä\n".encode())
    writer.write(
        classifier(), tmp_path / "f", task="image-classification", labels=labels, image_mean=(0.5,), image_std=(0.2,),
        image_size=(16, 12), precision=("fp32", "q8"), role=("logits=output", "logits=output"),
    )  # fmt: skip
    assert [*config(tmp_path / "f")["id2label"].values()] == ["a", "b\x0b", "c\u2028", "d", "ä"]
    assert (tmp_path / "f" / "onnx" / "model_quantized.onnx").is_file()
    assert json.loads((tmp_path / "f" / "preprocessor_config.json").read_text())["image_mean"] == [0.5] * 3


def test_the_command_line_gives_tokens_of_special_meaning_as_options(tmp_path, tokenizer):
    writer.write(encoder(), tmp_path / "f", task="feature-extraction", tokenizer=tokenizer, pad_token="<pad>")
    assert json.loads((tmp_path / "f" / "tokenizer_config.json").read_text())["pad_token"] == "<pad>"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "Say which task"), ({"task": "image-classification", "role": ("images",)}, "write a role and a name"),
        ({"task": "image-classification", "image_size": (1, 2, 3)}, "not 3 numbers"),
        ({"task": "image-classification", "image_size": ()}, "not 0 numbers"),
        ({"task": "image-classification", "role": ("logits=a", "logits=output")}, "two things of 'logits': a and output"),
        ({"task": "image-classification", "config": {"x": float("nan")}}, "config: what is no text"),
        ({"task": "image-classification", "config": {"x": object()}}, "config: what is no text"),
    ],
)  # fmt: skip
def test_wrong_options_of_the_command_line_are_refused(tmp_path, options, message):
    with pytest.raises(OptionError, match=message):
        writer.write(classifier(), tmp_path / "f", **options)


def test_an_option_that_another_writer_has_is_of_the_same_type():
    """The command line has each option once, whatever the runtime."""
    from jax2onnx_genai.folder import writer as other

    shared = {option.name: option for option in other.options}
    assert [
        option.name
        for option in writer.options
        if option.name in shared
        and (option.type, option.is_list, option.choices)
        != (shared[option.name].type, shared[option.name].is_list, shared[option.name].choices)
    ] == []
