from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import jax2onnx_runtime.folders
import pytest
from jax2onnx_cli import _folders
from jax2onnx_runtime.folders import FolderOption, FolderWriters, complete_folder


class Writer:
    description = "a runtime of tests"
    options: Sequence[FolderOption] = (
        FolderOption("vocabulary", Path, "The words."), FolderOption("context_length", int, "How many words."),
        FolderOption("shape", str, "A shape.", choices=("round", "square")),
        FolderOption("end", int, "The last word.", is_list=True), FolderOption("strict", bool, "Whether it is strict."),
    )  # fmt: skip

    def write(self, program, folder, **options):
        with complete_folder(folder) as part:
            shown = {name: str(value) if isinstance(value, Path) else value for name, value in options.items()}
            (part / "options.json").write_text(json.dumps(shown))
            program.portable().save(part / "model.onnx")
        return [Path(folder) / "options.json", Path(folder) / "model.onnx"]


class Quantizing(Writer):
    options = (*Writer.options, FolderOption("quantize", str, "The mode."))


class Varying(Writer):
    options = (FolderOption("variant", str, "A static model.", is_list=True),)


@pytest.fixture(autouse=True)
def writers(monkeypatch) -> Iterator[None]:
    """Three writers, and no others."""
    found = FolderWriters({"acme": Writer(), "few": Quantizing(), "many": Varying()}, {})
    monkeypatch.setattr(jax2onnx_runtime.folders, "folder_writers", lambda: found)
    _folders._writer_options.cache_clear()
    yield
    _folders._writer_options.cache_clear()


DOUBLE = ("export", "models.py:double", "-i", "f32[B, 3]")
DENSE = ("export", "models.py:dense", "-i", "f32[B, 64]")


def options(folder: str) -> object:
    return json.loads(Path(folder, "options.json").read_text())


def test_a_folder_is_written_by_the_writer_for_the_runtime(jax2onnx):
    outcome = jax2onnx(*DOUBLE, "--for", "acme")
    assert (outcome.code, outcome.err) == (0, "")
    assert Path("double", "model.onnx").exists()
    assert outcome.out.endswith("written to double/options.json, double/model.onnx\n")


def test_a_writer_gets_the_options_that_are_given(jax2onnx):
    given = (
        "--vocabulary",
        "words",
        "--context-length",
        "8",
        "--shape",
        "round",
        "--end",
        "1",
        "--end",
        "2",
        "--strict",
    )
    assert jax2onnx(*DOUBLE, "--for", "acme", *given, "-o", "out").code == 0
    assert options("out") == {
        "vocabulary": "words",
        "context_length": 8,
        "shape": "round",
        "end": [1, 2],
        "strict": True,
    }


def test_a_writer_gets_no_others(jax2onnx):
    assert jax2onnx(*DOUBLE, "--for", "acme", "-o", "out").code == 0
    assert options("out") == {}


def test_a_writer_that_quantizes_gets_the_mode(jax2onnx):
    assert jax2onnx(*DENSE, "--for", "few", "--quantize", "int8", "-o", "out").code == 0
    assert options("out") == {"quantize": "int8"}


def test_the_program_of_another_writer_is_quantised(jax2onnx):
    assert jax2onnx(*DENSE, "--for", "acme", "-o", "full").code == 0
    assert jax2onnx(*DENSE, "--for", "acme", "--quantize", "int8", "-o", "out").code == 0
    assert Path("out", "model.onnx").stat().st_size < Path("full", "model.onnx").stat().st_size / 2


def test_the_help_lists_the_options_with_their_runtimes(jax2onnx):
    _, _, group = jax2onnx("export", "--help").out.partition("Options of --for acme and few:\n")
    assert "How many words." in group.partition("\n\n")[0]


def test_an_unknown_runtime_is_an_error_that_names_the_installed_ones(refused):
    assert "installed are acme, few, many" in refused(*DOUBLE, "--for", "acne")


def test_a_runtime_whose_package_is_missing_is_an_error_that_says_how_to_install_it(refused):
    assert "pip install jax2onnx-genai" in refused(*DOUBLE, "--for", "genai")


def test_an_option_of_a_runtime_without_the_runtime_is_an_error(refused):
    assert "add --for acme or few." in refused(*DOUBLE, "--context-length", "8")


def test_variants_are_no_folder_for_a_runtime(refused):
    assert "neither --variant nor --external-data goes with it" in refused(
        *DOUBLE, "--for", "acme", "--variant", "one:B=1", "-o", "out"
    )


def test_a_folder_that_exists_is_an_error(jax2onnx, refused):
    Path("out").mkdir()
    Path("out", "a").write_text("1")
    assert "it exists" in refused(*DOUBLE, "--for", "acme", "-o", "out")


def test_a_writer_of_static_models_gets_the_variants(jax2onnx):
    given = ("--variant", "one:B=1", "--variant", "two:B=2")
    assert jax2onnx(*DOUBLE, "--for", "many", *given, "-o", "out").code == 0
    assert options("out") == {"variant": ["one:B=1", "two:B=2"]}
