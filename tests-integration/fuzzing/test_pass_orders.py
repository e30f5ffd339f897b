"""Passes in random orders, and twice: the values of models do not depend on it, and a second run changes nothing."""

from __future__ import annotations

import warnings

import jax.numpy as jnp
import numpy as np
import pytest
from jax2onnx_graph.passes import default_passes, optimise
from jax2onnx_graph.passes.structural.eliminate_common_subexpressions import EliminateCommonSubexpressions
from jax2onnx_graph.rewrite.pass_base import GraphPass
from jax2onnx_graph.targets import standard_target
from jax2onnx_testing.collection import CollectedCase, find_cases
from jax2onnx_testing.graph_text import graph_text
from jax2onnx_testing.variants import Variant, build

from fuzzing.formula_catalogue import FORMULAS
from fuzzing.formulas import base, model_before_passes
from fuzzing.pass_orders import ModelBeforePasses, differences, random_order

CASES = sorted((case for case in find_cases() if isinstance(case, CollectedCase)), key=lambda case: case.id)


def classes(order):
    return [type(factory(standard_target)) for factory in order]


@pytest.mark.parametrize("seed", range(5))
def test_a_random_order_has_all_passes_after_those_that_they_name(seed):
    order = classes(random_order(seed))
    assert sorted(map(str, order)) == sorted(map(str, classes(default_passes())))
    for index, made in enumerate(order):
        assert not issubclass(made, GraphPass) or {*made.after} <= {*order[:index]}


def test_orders_of_two_seeds_differ_and_those_of_one_do_not():
    assert classes(random_order(1)) == classes(random_order(1)) != classes(random_order(2))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("formula", FORMULAS, ids=[formula.name for formula in FORMULAS])
def test_the_values_of_formulas_do_not_depend_on_the_order_of_passes(formula):
    assert differences(model_before_passes(base(formula)), range(3)) == []


@pytest.mark.sampled(4)
@pytest.mark.parametrize("formula", FORMULAS, ids=[formula.name for formula in FORMULAS])
def test_a_second_run_of_all_passes_changes_no_formula(formula):
    model = model_before_passes(base(formula))
    assert graph_text(model.optimised(times=2)) == graph_text(model.optimised())


@pytest.mark.sampled(40)
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


def test_a_pass_that_needs_an_order_is_caught(monkeypatch):
    class Wrong(GraphPass):
        """1. Each `Exp` that is read once becomes `Log`: wrong before equal subexpressions are one, and not after."""

        def rewrite_graph(self, editor):
            for node in editor.nodes():
                if node.op_type == "Exp" and len(node.outputs[0].uses()) == 1:
                    editor.put(node, "Log", node.inputs)

    monkeypatch.setattr("fuzzing.pass_orders.default_passes", lambda: [EliminateCommonSubexpressions, Wrong])
    model = ModelBeforePasses(lambda x: jnp.exp(x) + jnp.exp(x) * 2, [(3,)])
    found = differences(model, range(8))
    assert 0 < len(found) < 8
    assert found[0].endswith("Wrong, EliminateCommonSubexpressions.")


def test_optimise_takes_passes_in_another_order():
    model = ModelBeforePasses(lambda x: jnp.maximum(x, 0), [(3,)])
    assert [node.op_type for node in model.optimised([]).graph] == ["Max"]
    assert [node.op_type for node in model.optimised().graph] == ["Relu"]
    assert optimise(model.optimised([]), standard_target).notes == []
    np.testing.assert_array_equal(model.program(np.array([-1, 0, 2], np.float32)), [0, 0, 2])
