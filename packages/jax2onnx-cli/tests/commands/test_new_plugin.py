from __future__ import annotations

import ast
import dataclasses
import importlib
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from jax2onnx_cli._commands.new_plugin import TEMPLATE, write_plugin
from jax2onnx_testing.checks import check_variant
from jax2onnx_testing.collection import CollectedCase
from jax2onnx_testing.variants import variants_of
from packaging.requirements import Requirement


def test_its_cases_run(jax2onnx, directory, monkeypatch):
    assert jax2onnx("new-plugin", "made-up").code == 0
    monkeypatch.syspath_prepend(str(directory / "jax2onnx-made-up" / "src"))
    plugin = importlib.import_module("jax2onnx_made_up.plugin")
    cases = plugin.jax2onnx_testcases()
    assert {name for case in cases for name in case.covers} == {"made_up_sawtooth", "made_up.damping"}
    assert all(case.expect for case in cases if case.covers)
    for case in cases:
        found = CollectedCase(
            "jax2onnx-made-up", "made_up.ops", dataclasses.replace(case, options={"plugins": [plugin]})
        )
        for variant in variants_of(found):
            check_variant(variant)


def test_it_is_typed_strictly_as_it_is(tmp_path):
    pytest.importorskip("mypy")
    made = write_plugin("made-up", tmp_path)
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", os.devnull]
    found = subprocess.run(command, cwd=made, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr
    assert "in 6 source files" in found.stdout


def test_the_name_stands_everywhere(tmp_path):
    made = write_plugin("made-up", tmp_path)
    project = tomllib.loads((made / "pyproject.toml").read_text())["project"]
    assert project["name"] == "jax2onnx-made-up"
    assert project["entry-points"]["jax2onnx"] == {"made_up": "jax2onnx_made_up.plugin"}
    files = [file for file in made.rglob("*") if file.is_file()]
    assert len(files) >= 12
    assert {file.name for file in files} >= {"py.typed", "LICENSE", "tests.yml", "test_cases.py", ".gitignore"}
    assert not [file for file in files if "acme" in file.read_text() + str(file.relative_to(made))]
    for file in files:
        if file.suffix == ".py":
            ast.parse(file.read_text())


def test_its_requirements_admit_the_versions_here():
    project = tomllib.loads((TEMPLATE / "pyproject.toml").read_text())["project"]
    needed = [*map(Requirement, project["dependencies"] + project["optional-dependencies"]["test"])]
    for requirement in needed:
        if requirement.name.startswith("jax2onnx-"):
            module = importlib.import_module(requirement.name.replace("-", "_"))
            assert requirement.specifier.contains(vars(module)["__version__"], prereleases=True)


def test_only_the_package_appears(tmp_path):
    write_plugin("acme", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["jax2onnx-acme"]


def test_nothing_is_left_where_writing_fails(tmp_path, monkeypatch, refused):
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "rename", fail)
    assert "No space left on device" in refused("new-plugin", "acme", "--directory", str(tmp_path))
    assert not [path for path in tmp_path.iterdir() if "acme" in path.name]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("Acme", "'Acme' is no name for a plugin"),
        ("a_b", "'a_b' is no name for a plugin"),
        ("a--b", "'a--b' is no name"),
        ("-a", "No such option"),
        ("a/b", "'a/b' is no name"),
        ("..", "'..' is no name"),
        ("1st", "'1st' is no name"),
        ("", "'' is no name"),
        ("jax2onnx-acme", "leave the first part out"),
        ("class", "'class' is a word of Python"),
        ("lax", "jax2onnx-lax is installed already"),
    ],
)
def test_names_that_cannot_be_used(refused, directory, name, why):
    before = sorted(directory.iterdir())
    assert why in refused("new-plugin", name)
    assert sorted(directory.iterdir()) == before


def test_a_directory_that_exists_is_not_touched(refused, directory):
    (directory / "jax2onnx-acme").mkdir()
    assert "jax2onnx-acme exists already" in refused("new-plugin", "acme")
    assert not list((directory / "jax2onnx-acme").iterdir())


def test_a_directory_that_does_not_exist(refused):
    assert "There is no directory missing" in refused("new-plugin", "acme", "--directory", "missing")
