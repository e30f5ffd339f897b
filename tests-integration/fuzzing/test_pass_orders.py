"""Passes in random orders, and twice: the values of models do not depend on it, and a second run changes nothing."""

from __future__ import annotations

import warnings

import jax.numpy as jnp
import numpy as np
import pytest
from jax2onnx_core.plugins.discovery import installed_plugins
from jax2onnx_graph.passes import ContributedPass, optimise
from jax2onnx_graph.passes.structural.eliminate_common_subexpressions import EliminateCommonSubexpressions
from jax2onnx_graph.rewrite.pass_base import GraphPass, Phase
from jax2onnx_graph.targets import standard_target
from jax2onnx_testing.collection import CollectedCase, find_cases
from jax2onnx_testing.graph_text import graph_text
from jax2onnx_testing.variants import Variant, build

from fuzzing.formula_catalogue import FORMULAS
from fuzzing.formulas import base, model_before_passes
from fuzzing.pass_orders import ModelBeforePasses, differences, random_order

CASES = sorted((case for case in find_cases() if isinstance(case, CollectedCase)), key=lambda case: case.id)


def test_a_random_order_has_all_passes():
    passes = installed_plugins().registry.passes
    assert {*random_order(passes, 1)} == {*passes}


def test_orders_of_two_seeds_differ_and_those_of_one_do_not():
    passes = installed_plugins().registry.passes
    assert random_order(passes, 1) == random_order(passes, 1) != random_order(passes, 2)


@pytest.mark.parametrize("formula", FORMULAS, ids=[formula.name for formula in FORMULAS])
def test_the_values_of_formulas_do_not_depend_on_the_order_of_passes(formula):
    assert differences(model_before_passes(base(formula)), range(3)) == []


@pytest.mark.parametrize("formula", FORMULAS, ids=[formula.name for formula in FORMULAS])
def test_a_second_run_of_all_passes_changes_no_formula(formula):
    model = model_before_passes(base(formula))
    assert graph_text(model.optimised(times=2)) == graph_text(model.optimised())


@pytest.mark.parametrize("case", CASES[::5], ids=[case.id for case in CASES[::5]])
def test_the_values_of_cases_do_not_depend_on_the_order_of_passes(case):
    model = before_passes(case)
    assert differences(model, range(2)) == []
    assert count(model.optimised(times=2)) <= count(model.optimised())


def count(model):
    return sum(1 for _ in model.graph.all_nodes())


def before_passes(case):
    if reason := case.case.skip.get("f32"):
        pytest.skip(reason)
    built = build(Variant(case, "f32", symbolic=False))
    # A case may be about what JAX warns of.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ModelBeforePasses(built.fn, built.inputs, **built.options)


def test_a_pass_that_needs_an_order_is_caught():
    class Wrong(GraphPass):
        """1. Each `Exp` that is read once becomes `Log`: wrong before equal subexpressions are one, and not after."""

        phase = Phase.SIMPLIFY

        def rewrite_graph(self, editor):
            for node in editor.nodes():
                if node.op_type == "Exp" and len(node.outputs[0].uses()) == 1:
                    editor.put(node, "Log", node.inputs)

    model = ModelBeforePasses(lambda x: jnp.exp(x) + jnp.exp(x) * 2, [(3,)])
    model.passes[:] = [ContributedPass(one, (), "tests") for one in (EliminateCommonSubexpressions, Wrong)]
    found = differences(model, range(8))
    assert 0 < len(found) < 8
    assert found[0].endswith("Wrong, EliminateCommonSubexpressions.")


def test_optimise_takes_other_passes():
    model = ModelBeforePasses(lambda x: jnp.maximum(x, 0), [(3,)])
    assert [node.op_type for node in model.optimised([]).graph] == ["Max"]
    assert [node.op_type for node in model.optimised().graph] == ["Relu"]
    assert optimise(model.optimised([]), standard_target).notes == []
    np.testing.assert_array_equal(model.program(np.array([-1, 0, 2], np.float32)), [0, 0, 2])
