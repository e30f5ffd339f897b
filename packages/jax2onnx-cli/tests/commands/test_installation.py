"""Commands about the installation: plugins, doctor, and what every command has."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys

import pytest
from jax2onnx_cli import __version__
from jax2onnx_cli import _installation as installation
from jax2onnx_cli._commands import doctor
from jax2onnx_cli.app import COMMANDS
from jax2onnx_core.plugins import discovery
from jax2onnx_core.plugins.errors import PluginError
from jax2onnx_graph.targets import find_target
from jax2onnx_runtime.runtimes import find_runtime
from packaging.requirements import Requirement


@pytest.fixture
def broken_plugin(monkeypatch):
    """Plugins of which one cannot be imported."""
    entry_points = [*importlib.metadata.entry_points(group="jax2onnx")]
    broken = importlib.metadata.EntryPoint("broken", "no_such_plugin", "jax2onnx")
    plugins = discovery.load_plugins([*entry_points, broken])
    monkeypatch.setattr(discovery, "installed_plugins", lambda: plugins)


def test_plugins_and_what_they_contribute(jax2onnx):
    outcome = jax2onnx("plugins")
    assert outcome.code == 0
    assert outcome.out.startswith("distribution")
    (lax,) = [line for line in outcome.out.splitlines() if "jax2onnx-lax" in line]
    assert lax.split()[2] == "1"
    data = jax2onnx("plugins", "--json").data
    assert max(map(len, outcome.out.splitlines())) <= 80
    (lax,) = [plugin for plugin in data["plugins"] if plugin["name"] == "lax"]
    assert "dot_general" in lax["primitives"]
    assert "jax.nn:gelu" in lax["composites"]
    assert data["api"][0] <= lax["api"] <= data["api"][1]


def test_a_plugin_that_cannot_be_loaded_is_shown(jax2onnx, broken_plugin):
    outcome = jax2onnx("plugins")
    assert outcome.code == 1
    assert "No module named 'no_such_plugin'" in outcome.out
    assert "jax2onnx-lax" in outcome.out


def test_the_doctor_shows_versions(jax2onnx):
    data = jax2onnx("doctor", "--json").data
    assert data["versions"]["jax"] == importlib.metadata.version("jax")
    assert data["versions"]["python"].startswith(f"{sys.version_info.major}.{sys.version_info.minor}")
    assert "jax2onnx-core" in data["versions"]


def test_the_doctor_finds_a_broken_plugin(jax2onnx, broken_plugin):
    outcome = jax2onnx("doctor")
    assert outcome.code == 1
    assert "no_such_plugin" in outcome.out
    assert outcome.out.endswith("1 problem\n")


def test_the_doctor_finds_what_is_missing(jax2onnx, monkeypatch):
    registry = discovery.installed_plugins().registry
    runtime = find_runtime(registry.runtimes, find_target(registry.targets, None))
    monkeypatch.setattr(type(runtime), "is_installed", False)
    installed = {name: v for name, v in installation.distributions().items() if name not in ("jax2onnx-lax", "pluggy")}
    monkeypatch.setattr(doctor, "distributions", lambda: {**installed, "jax": "0.4.1"})
    monkeypatch.delitem(installed, "jax2onnx-nnx", raising=False)
    data = jax2onnx("doctor", "--json").data
    problems = "\n".join(data["problems"])
    assert "jax2onnx-core needs pluggy>=1.6, but none is installed: pip install 'pluggy>=1.6'" in problems
    assert "jax2onnx-core needs jax>=0.10.2, but 0.4.1 is installed" in problems
    assert "pip install jax2onnx-lax" in problems
    assert "pip install 'jax2onnx-onnxruntime[cpu]'" in problems
    assert any("pip install jax2onnx-nnx" in hint for hint in data["hints"])


def test_the_doctor_survives_plugins_that_contradict_each_other(jax2onnx, monkeypatch):
    def contradict():
        raise PluginError("Two distributions register the same.")

    monkeypatch.setattr(discovery, "installed_plugins", contradict)
    outcome = jax2onnx("doctor")
    assert outcome.code == 1
    assert "Two distributions register the same." in outcome.out


def test_requirements_of_extras_count_where_they_are_installed():
    assert Requirement("onnxruntime>=1.24; extra == 'cpu'") in list(installation.requirements("jax2onnx-onnxruntime"))
    installed = {"jax2onnx-onnxruntime": "0.1.0", "onnxruntime": "1.2.0"}
    unmet = {requirement.name for _, requirement in installation.unmet(installed)}
    assert "onnxruntime" in unmet
    assert "onnxruntime-gpu" not in unmet


# -- what every command has -----------------------------------------------------------------


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_every_command_explains_itself(jax2onnx, command):
    outcome = jax2onnx(command.name, "--help")
    assert outcome.code == 0
    for option in ("--json", "--quiet", "--debug"):
        assert option in outcome.out
    assert len(command.get_short_help_str(200)) < 60


def test_the_command_alone_shows_its_help(jax2onnx):
    assert jax2onnx() == jax2onnx("--help")


def test_the_version(jax2onnx):
    assert __version__ in jax2onnx("--version").out


def test_an_unknown_command(refused):
    line = refused("exprot")
    assert line.startswith("No such command 'exprot'.")
    assert line.endswith("(jax2onnx --help)")


def test_help_imports_neither_jax_nor_onnx():
    code = (
        "import sys; from jax2onnx_cli.app import main; main(['export', '--help'])\n"
        "assert not {'jax', 'numpy', 'onnx', 'onnx_ir'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


@pytest.mark.parametrize("arguments", ["--help", "plugins --json"])
def test_a_reader_that_stops_early_sees_no_error(arguments):
    command = f"{sys.executable} -m jax2onnx_cli {arguments} | true"
    result = subprocess.run(command, shell=True, capture_output=True, text=True, check=True)
    assert result.stderr == ""
