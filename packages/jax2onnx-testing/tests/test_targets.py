"""Cases for a target: run in its runtime, refused, or explained by a limitation."""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp
import pytest
from jax2onnx_core import Case, expect_graph
from jax2onnx_core.plugins.discovery import installed_plugins, needed_plugins
from jax2onnx_graph.limitations import Limitation
from jax2onnx_graph.targets import Target
from jax2onnx_runtime.runtimes import Runtime
from jax2onnx_testing.checks import check_variant
from jax2onnx_testing.cli import main
from jax2onnx_testing.collection import CollectedCase, find_cases
from jax2onnx_testing.errors import CheckFailedError, KnownLimitationError
from jax2onnx_testing.variants import Variant

CASE = Case("exp", jnp.exp, [(3,)], expect=expect_graph("Log"))


class Toy(Target):
    """A target without Sin."""

    name = "toy"

    def supports(self, op_type, dtype, opset):
        return op_type != "Sin" and super().supports(op_type, dtype, opset)

    def limitations(self):
        return [Limitation("Exp", "It adds one to exponentials.", operators=("Exp",))]


class ToyRuntime(Runtime):
    """`onnx.reference`, but for results that are too large by one."""

    name = "toy runtime"
    targets = frozenset({"toy"})

    def load(self, model):
        run = super().load(model)
        return lambda feeds: [array + 1 for array in run(feeds)]


@pytest.fixture
def toy(monkeypatch):
    """The target with its runtime, registered."""
    find_cases()  # imports the libraries of models, whose plugins contribute from then on
    for plugins in (installed_plugins(), needed_plugins()):
        monkeypatch.setitem(plugins.registry.targets, "toy", Toy())
        monkeypatch.setitem(plugins.registry.runtimes, "toy", ToyRuntime())


def variant(target, **changes):
    found = CollectedCase("jax2onnx-demo", "demo", dataclasses.replace(CASE, **changes))
    return Variant(found, "f32", symbolic=False, target=target)


def test_a_case_runs_in_the_runtime_of_the_target_and_expects_no_graph():
    check_variant(variant("onnx"))


def test_a_wrong_result_fails(toy):
    with pytest.raises(CheckFailedError, match="differs from JAX"):
        check_variant(variant("toy", fn=jnp.tanh))


def test_a_limitation_explains_a_wrong_result(toy):
    with pytest.raises(KnownLimitationError, match="It adds one to exponentials"):
        check_variant(variant("toy"))


def test_a_refusal_is_known(toy):
    with pytest.raises(KnownLimitationError, match=r"refused: (?s:.*)toy has no Sin"):
        check_variant(variant("toy", fn=jnp.sin))


def test_a_case_about_another_target_is_skipped(toy):
    assert variant("toy", options={"target": "onnx"}).skip_reason == "The case is about the target 'onnx'."
    assert variant("toy", options={"target": "toy"}).skip_reason is None
    assert variant(None, options={"target": "onnx"}).skip_reason is None


def test_a_target_without_runtime_fails_with_a_sentence(toy, monkeypatch):
    monkeypatch.delitem(installed_plugins().registry.runtimes, "toy")
    with pytest.raises(CheckFailedError, match="The tests need the runtime of the target 'toy': No installed plugin"):
        check_variant(variant("toy"))


def test_the_command_takes_a_target(toy, capsys, monkeypatch):
    assert main(["check", "activations::relu6", "--target", "toy"]) == 1
    assert "differs from JAX" in capsys.readouterr().out
