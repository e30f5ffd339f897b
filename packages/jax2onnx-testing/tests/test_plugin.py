"""The pytest plugin and the command, on a made-up plugin."""

from __future__ import annotations

import sys
import types
from typing import Any, cast

import pytest
from jax2onnx_testing._coverage import duplicate_ids, uncovered_operations
from jax2onnx_testing.cli import main
from jax2onnx_testing.collection import BrokenPlugin, find_cases, module_label

pytest_plugins = ["pytester"]

CASES = """
import jax.numpy as jnp
from jax2onnx_core import Case, expect_graph

cases = [
    Case("exp", jnp.exp, [("B", 2)], expect=expect_graph("Exp:Bx2", match="exact")),
    Case("wrong", jnp.exp, [(2,)], expect=expect_graph("Log"), skip={"f64": "not needed twice"}),
]
"""


@pytest.fixture
def demo(pytester, monkeypatch):
    path = pytester.makepyfile(demo_kit_cases=CASES)
    monkeypatch.syspath_prepend(str(pytester.path))
    sys.modules.pop("demo_kit_cases", None)
    return path


def test_a_module_of_cases_is_a_file_of_tests(pytester, demo):
    result = pytester.runpytest(str(demo), "-v")
    result.assert_outcomes(passed=4, failed=1, skipped=1)
    result.stdout.fnmatch_lines(["*exp[[]f32-static[]]*PASSED*", "*there is no Log*"])


def test_a_precision_can_be_chosen(pytester, demo):
    result = pytester.runpytest(str(demo), "--collect-only", "-q", "--jax2onnx-precision", "f32")
    result.stdout.fnmatch_lines(["*exp[[]f32-static[]]", "*exp[[]f32-symbolic[]]", "*wrong[[]f32-static[]]"])
    result.stdout.no_fnmatch_line("*f64*")


def test_cases_that_are_not_named_are_not_collected(pytester, demo):
    assert pytester.runpytest().ret == pytest.ExitCode.NO_TESTS_COLLECTED


def test_the_command_lists_checks_and_emits(demo, capsys):
    assert main(["list", "--module", "demo_kit_cases", "exp"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "demo_kit::exp[f32-static]"
    assert main(["check", "--module", "demo_kit_cases", "exp"]) == 0
    assert main(["check", "--module", "demo_kit_cases", "wrong"]) == 1
    capsys.readouterr()
    assert main(["emit", "--module", "demo_kit_cases", "exp"]) == 0
    assert capsys.readouterr().out == '"Exp"\n'
    assert main(["emit", "--module", "demo_kit_cases", "exp", "--shapes"]) == 0
    assert capsys.readouterr().out == '"Exp:Bx2"\n'


def test_the_command_writes_what_cases_without_an_expectation_are(demo, capsys):
    demo.write_text(
        CASES.replace(', expect=expect_graph("Log")', "")
        + 'cases += [Case(name, jnp.log, [(2,)]) for name in ["log"]]\n'
    )
    assert main(["emit", "--module", "demo_kit_cases", "", "--write"]) == 0
    written = capsys.readouterr().out
    assert "# No call Case('log', ...)" in written
    assert f"1 written into {demo}" in written
    assert 'Case("wrong", jnp.exp, [(2,)], skip={"f64": "not needed twice"}, expect="Exp")' in demo.read_text()


def test_the_command_says_when_there_is_no_such_case(demo, capsys):
    assert main(["emit", "--module", "demo_kit_cases", "sinh"]) == 2
    assert "No case has 'sinh' in its id." in capsys.readouterr().err


def test_modules_are_named_shortly():
    assert module_label("jax2onnx_lax.elementwise.arithmetic_cases") == "lax.elementwise.arithmetic"
    assert module_label("my_plugin.layers_cases") == "my_plugin.layers"


class _EntryPoint:
    def __init__(self, name, plugin):
        self.name, self.value, self.plugin = name, name, plugin
        self.dist = type("Distribution", (), {"name": f"jax2onnx-{name}"})()

    def load(self):
        return self.plugin


def _plugins(**hooks):
    from jax2onnx_core.plugins.discovery import load_plugins

    plugin = type("demo", (), {"JAX2ONNX_API": 1, **{k: staticmethod(v) for k, v in hooks.items()}})
    return load_plugins([cast("Any", _EntryPoint("demo", plugin))])


def test_a_hook_that_fails_is_one_broken_test():
    from jax2onnx_core import hookimpl

    @hookimpl
    def jax2onnx_testcases():
        raise RuntimeError("no cases today")

    (broken,) = find_cases((), _plugins(jax2onnx_testcases=jax2onnx_testcases))
    assert isinstance(broken, BrokenPlugin)
    assert broken.id == "jax2onnx-demo::jax2onnx_testcases"
    assert str(broken.error) == "no cases today"


def test_operations_without_a_case_are_named():
    from jax2onnx_core import Case, Composites, Rules, hookimpl

    rules, composites = Rules(), Composites()
    rules.elementwise({"demo_a": "Exp", "demo_b": "Log"})
    rules.unsupported("demo_d", "It is none.")
    composites.call("math:floor", name="demo_c")(lambda *_: None)
    composites.call("math:ceil", name="demo_a")(lambda *_: None)

    @hookimpl
    def jax2onnx_register(registry):
        registry.add(rules, composites)

    @hookimpl
    def jax2onnx_testcases():
        return [Case("a", abs, [(2,)], covers=("demo_a",))]

    plugins = _plugins(jax2onnx_register=jax2onnx_register, jax2onnx_testcases=jax2onnx_testcases)
    assert uncovered_operations("jax2onnx-demo", plugins) == ["demo_b", "demo_c"]


@pytest.mark.parametrize(("names", "twice"), [("ab", []), ("aba", ["demo::a"]), ("abab", ["demo::a", "demo::b"])])
def test_names_that_several_cases_share_are_named(monkeypatch, names, twice):
    found = [types.SimpleNamespace(id=f"demo::{name}") for name in names]
    monkeypatch.setattr("jax2onnx_testing._coverage.find_cases", lambda _: found)
    assert duplicate_ids("jax2onnx-demo") == twice


def test_a_target_can_be_chosen(pytester, demo):
    result = pytester.runpytest(str(demo), "-v", "--target", "onnx")
    result.assert_outcomes(passed=5, skipped=1)


GRIDS = """
import pytest

@pytest.mark.parametrize("n", range(20))
def test_grid(n): pass

@pytest.mark.sampled(5)
@pytest.mark.parametrize("n", range(20))
def test_marked(n): pass

@pytest.mark.sampled(None)
@pytest.mark.parametrize("n", range(20))
def test_whole(n): pass
"""


@pytest.mark.parametrize(
    ("options", "setting", "passed"),
    [([], "3", 60), (["--jax2onnx-quick"], "3", 3 + 5 + 20), (["--jax2onnx-quick"], "", 20 + 5 + 20)],
)
def test_the_quick_suite_runs_some_parameters_of_a_test(pytester, options, setting, passed):
    pytester.makepyfile(GRIDS)
    pytester.makeini(f"[pytest]\njax2onnx_sampled = {setting}")
    pytester.runpytest(*options).assert_outcomes(passed=passed, deselected=60 - passed)


def test_the_same_parameters_are_run_each_time(pytester):
    pytester.makepyfile(GRIDS)
    first, second = (pytester.runpytest("--jax2onnx-quick", "-v", "-k", "marked").outlines for _ in range(2))
    assert [line for line in first if "::" in line] == [line for line in second if "::" in line]
