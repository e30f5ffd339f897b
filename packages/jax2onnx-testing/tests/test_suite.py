"""The tests that the suite makes of the cases of installed plugins."""

from __future__ import annotations

import collections

import jax2onnx_testing.suite
import pytest

pytest_plugins = ["pytester"]


def collected(pytester: pytest.Pytester, *options: str) -> collections.Counter[str]:
    """The number of tests of each function of the suite."""
    suite = f"--pyargs {jax2onnx_testing.suite.__name__} --collect-only -q".split()
    result = pytester.runpytest(*suite, *options)
    lines = [line for line in result.outlines if "::" in line and "[" in line and "NOTSET" not in line]
    return collections.Counter(line.partition("::")[2].partition("[")[0] for line in lines)


def test_each_function_has_parameters_and_the_quick_suite_fewer(pytester: pytest.Pytester) -> None:
    whole = collected(pytester, "--jax2onnx-dist", "equinox")
    quick = collected(pytester, "--jax2onnx-dist", "jax2onnx-equinox", "--jax2onnx-quick")
    narrow = collected(pytester, "--jax2onnx-dist", "equinox", "--jax2onnx-precision", "f64")
    assert {*whole} >= {
        "test_case",
        "test_under_transformation",
        "test_where_rules_decline",
        "test_every_operation_is_covered",
    }
    assert 0 < quick["test_case"] < whole["test_case"] / 2
    assert 0 < narrow["test_case"] < whole["test_case"]
    assert narrow["test_under_transformation"] == narrow["test_where_rules_decline"] == 0
    assert whole["test_every_operation_is_covered"] == narrow["test_every_operation_is_covered"] == 1


def test_a_distribution_that_has_no_plugin_is_refused(pytester: pytest.Pytester) -> None:
    suite = jax2onnx_testing.suite.__name__
    result = pytester.runpytest("--pyargs", suite, "--jax2onnx-dist", "nothing", "--collect-only")
    assert "--jax2onnx-dist: No plugin of nothing is installed; there are: equinox, " in str(result.outlines)
