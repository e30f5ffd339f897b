from __future__ import annotations

import importlib.metadata
import sys
import types
from pathlib import Path

import pytest
from jax2onnx_graph.errors import OptionError, PluginError, SaveError
from jax2onnx_runtime.folders import FolderOption, FolderWriters, complete_folder, load_folder_writers


class Writer:
    description = "a runtime of tests"
    options = (FolderOption("depth", int, "How deep."),)

    def write(self, program, folder, **options):
        with complete_folder(folder) as part:
            (part / "depth.txt").write_text(str(options.get("depth")))
        return [Path(folder) / "depth.txt"]


@pytest.fixture
def module(monkeypatch):
    """A module with a writer, and with an object that is none."""
    found = types.ModuleType("acme_folder")
    found.__dict__.update(writer=Writer(), other=object())
    monkeypatch.setitem(sys.modules, "acme_folder", found)


def entry_point(name: str, value: str) -> importlib.metadata.EntryPoint:
    return importlib.metadata.EntryPoint(name, value, "jax2onnx.folders")


@pytest.fixture
def writers(module) -> FolderWriters:
    return load_folder_writers([
        entry_point("acme", "acme_folder:writer"), entry_point("none", "acme_folder:other"),
        entry_point("absent", "acme_absent:writer"), entry_point("twice", "acme_folder:writer"),
        entry_point("twice", "acme_folder:writer "),
    ])  # fmt: skip


def test_a_writer_is_found_by_its_name(writers, tmp_path):
    files = writers.named("acme").write(None, tmp_path / "out", depth=3)
    assert [file.read_text() for file in files] == ["3"]


def test_those_that_fail_do_not_stop_the_others(writers):
    assert list(writers.writers) == ["acme"]


@pytest.mark.parametrize(
    ("name", "reason"),
    [("none", "is no FolderWriter"), ("absent", "No module named 'acme_absent'"), ("twice", "Two distributions")],
)
def test_a_writer_that_could_not_be_loaded_is_an_error_with_its_reason(writers, name, reason):
    with pytest.raises(PluginError, match=reason):
        writers.named(name)


def test_an_unknown_name_is_an_error_that_names_the_installed_ones(writers):
    with pytest.raises(OptionError, match="'acne': installed are acme; pip install jax2onnx-coyote for coyote"):
        writers.named("acne", {"coyote": "jax2onnx-coyote"})


def test_a_known_name_that_is_not_installed_is_an_error_that_says_how_to_install_it():
    with pytest.raises(OptionError, match="pip install jax2onnx-coyote"):
        FolderWriters({}, {}).named("coyote", {"coyote": "jax2onnx-coyote"})


def test_where_none_is_installed_the_error_says_so():
    with pytest.raises(OptionError, match="none is installed"):
        FolderWriters({}, {}).named("acme")


def test_a_folder_appears_when_it_is_complete(tmp_path):
    with complete_folder(tmp_path / "out") as part:
        (part / "a").write_text("1")
        assert not (tmp_path / "out").exists()
    assert [file.name for file in (tmp_path / "out").iterdir()] == ["a"]
    assert [file.name for file in tmp_path.iterdir()] == ["out"]


def test_nothing_is_left_of_a_folder_that_was_not_completed(tmp_path):
    def fail() -> None:
        with complete_folder(tmp_path / "out") as part:
            (part / "a").write_text("1")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert [*tmp_path.iterdir()] == []


def test_an_empty_folder_is_filled(tmp_path):
    (tmp_path / "out").mkdir()
    with complete_folder(tmp_path / "out") as part:
        (part / "a").write_text("1")
    assert (tmp_path / "out" / "a").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="links")
@pytest.mark.parametrize("exists", [True, False])
def test_a_link_to_an_empty_folder_stays_a_link(tmp_path, exists):
    (tmp_path / "link").symlink_to("out")
    if not exists:
        with pytest.raises(SaveError, match="it exists"), complete_folder(tmp_path / "link"):
            pass
        return
    (tmp_path / "out").mkdir()
    with complete_folder(tmp_path / "link") as part:
        (part / "a").write_text("1")
    assert (tmp_path / "link").is_symlink()
    assert [file.name for file in (tmp_path / "out").iterdir()] == ["a"]


def test_a_folder_with_files_is_an_error_and_stays(tmp_path):
    (tmp_path / "a").write_text("1")
    with pytest.raises(SaveError, match="it exists"), complete_folder(tmp_path):
        pass
    assert (tmp_path / "a").read_text() == "1"


def test_a_folder_in_none_is_an_error(tmp_path):
    with pytest.raises(SaveError, match="there is no directory"), complete_folder(tmp_path / "a" / "b"):
        pass
