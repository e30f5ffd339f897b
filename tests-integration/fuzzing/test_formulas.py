"""Formulas and their look-alikes: the formulas become operators, the look-alikes keep the values of JAX, and a wrong pass is caught."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax2onnx_core.plugins.discovery import installed_plugins
from jax2onnx_fusions.activations import fuse_gelu
from jax2onnx_fusions.activations.fuse_silu import FuseSilu
from jax2onnx_graph.targets import standard_target
from jax2onnx_runtime.comparison import tolerance
from jax2onnx_testing.graph_text import graph_text

from fuzzing import __main__ as command
from fuzzing.check import reference
from fuzzing.execution import Exported, evaluate, random_arguments
from fuzzing.formula_catalogue import FORMULAS
from fuzzing.formulas import (
    Formula,
    Mutant,
    Situation,
    base,
    findings,
    is_formed,
    model_before_passes,
    mutant_of_seed,
    random_mutant,
    single_mutants,
    varied_mutants,
)
from fuzzing.variations import variations

MODULE = "fuzzing.formula_catalogue"
SINGLE = [mutant for formula in FORMULAS for mutant in single_mutants(formula)]
VARIED = [mutant for formula in FORMULAS for mutant in varied_mutants(formula)]
GELU = next(formula for formula in FORMULAS if formula.name == "gelu")
_PAIRS = [(formula, name) for formula in FORMULAS for name in formula.passes]


def names(formulas):
    return [formula.name for formula in formulas]


# -- the formulas ------------------------------------------------------------------------------------


@pytest.mark.sampled(40)
@pytest.mark.parametrize("formula", FORMULAS, ids=names(FORMULAS))
def test_a_formula_becomes_its_operators(formula):
    assert is_formed(formula)


@pytest.mark.sampled(20)
@pytest.mark.parametrize("formula", FORMULAS, ids=names(FORMULAS))
def test_a_formula_has_the_values_of_jax(formula):
    assert findings(base(formula)) == []


@pytest.mark.parametrize(("formula", "name"), _PAIRS, ids=[f"{f.name}, {name}" for f, name in _PAIRS])
def test_a_formula_needs_the_passes_that_it_names(formula, name, monkeypatch):
    model = model_before_passes(base(formula))
    target = model.program.target
    factories = [*(one.factory for one in model.passes), *target.passes()]
    found = [type(made) for factory in factories if type(made := factory(target)).__name__ == name]
    usual = graph_text(model.optimised())
    monkeypatch.setattr(found[0], "rewrite_graph", lambda self, editor: None)
    assert graph_text(model.optimised()) != usual


FUSIONS = {
    type(one.factory(standard_target)).__name__
    for one in installed_plugins().registry.passes
    if one.owner == "jax2onnx-fusions"
}


@pytest.mark.parametrize("name", sorted(FUSIONS))
def test_each_fusion_has_a_formula(name):
    assert name in {name for formula in FORMULAS for name in formula.passes}


def test_the_names_of_formulas_differ():
    assert len({formula.name for formula in FORMULAS}) == len(FORMULAS)


# -- their look-alikes -------------------------------------------------------------------------------


@pytest.mark.sampled(20)
@pytest.mark.parametrize("mutant", SINGLE, ids=map(str, SINGLE))
def test_look_alikes(mutant):
    assert mutant.program() is not None
    assert findings(mutant) == []


@pytest.mark.parametrize("mutant", VARIED, ids=map(str, VARIED))
def test_variations(mutant):
    assert findings(mutant) == []


@pytest.mark.parametrize("seed", range(2 * len(FORMULAS)))
def test_look_alikes_in_other_situations(seed):
    assert findings(mutant_of_seed(seed, MODULE)) == []


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("formula", FORMULAS, ids=names(FORMULAS))
def test_half_precision_stays_within_its_tolerance(formula, dtype):
    if dtype not in formula.dtypes:
        pytest.skip("the formula has another type")
    assert findings(Mutant(formula, {}, Situation(dtype, opset=formula.opset, values="unit"))) == []


_FUSED = [(formula, dtype) for formula in FORMULAS if formula.passes for dtype in formula.dtypes if dtype != "float64"]


@pytest.mark.parametrize(("formula", "dtype"), _FUSED, ids=[f"{f.name}, {dtype}" for f, dtype in _FUSED])
def test_what_a_fusion_makes_is_as_near_to_the_exact_result_as_jax(formula, dtype):
    program = Mutant(formula, {}, Situation(dtype, opset=formula.opset, values="unit")).program()
    if program is None:
        pytest.skip("the constants of the formula are too great for the type")
    names = [v.name for v in program.variables]
    try:
        [run, *_] = reference(program)
    except ValueError as error:
        pytest.skip(f"JAX cannot compute it on this processor: {error}")
    got = Exported(program, names, program.inputs)(run.values)
    wider = program.with_dtypes(dict.fromkeys(["float16", "bfloat16", "float32"], "float64")) or program
    with jax.enable_x64(True):
        exact = evaluate(wider, names, random_arguments(program, 0))
    for name in names:
        counted = np.isfinite(run.values[name])  # a mask of -1e30 is infinite in float16
        want, correct = run.values[name][counted].astype(np.float64), exact[name][counted]
        limit = np.abs(want - correct).max(initial=0) + tolerance(got[name].dtype) * max(1, np.abs(want).max(initial=0))
        assert np.abs(got[name][counted].astype(np.float64) - correct).max(initial=0) <= limit


# -- the net itself ----------------------------------------------------------------------------------


def test_a_mutant_differs_from_its_formula_at_one_point():
    [first, *_] = single_mutants(GELU)
    assert first.choices == {"half": "0.4"}
    assert "return 0.4 * x * (1 + lax.erf(x / np.sqrt(2).astype(x.dtype)))" in first.program().prelude


def test_variations_are_what_a_fusion_forgets_to_look_at():
    made = variations("def f(x, v):\n    y = jnp.tanh(x) / jnp.sqrt(v + 1e-5)\n    return jnp.sum(y * y, -1)\n")
    changed = {name.partition(": ")[0]: source.splitlines()[1:] for name, source in reversed(made.items())}
    assert changed == {
        "swapped": ["    y = ((jnp.sqrt(v + 1e-05)) / (jnp.tanh(x)))", "    return jnp.sum(y * y, -1)"],
        "a factor more": ["    y = (1.5 * (jnp.tanh(x) / jnp.sqrt(v + 1e-05)))", "    return jnp.sum(y * y, -1)"],
        "reversed": ["    y = (jnp.flip(jnp.tanh(x) / jnp.sqrt(v + 1e-05), 0))", "    return jnp.sum(y * y, -1)"],
        "applied twice": ["    y = (jnp.tanh(jnp.tanh(x))) / jnp.sqrt(v + 1e-5)", "    return jnp.sum(y * y, -1)"],
        "subtracted": ["    y = jnp.tanh(x) / jnp.sqrt(((1e-05) - (v)))", "    return jnp.sum(y * y, -1)"],
        "another sign": ["    y = jnp.tanh(x) / jnp.sqrt(v + (-1e-05))", "    return jnp.sum(y * y, -1)"],
        "another power": ["    y = jnp.tanh(x) / jnp.sqrt(v + 1e-5)", "    return jnp.sum(((y) * (y) * (y)), -1)"],
        "without a factor": ["    y = jnp.tanh(x) / jnp.sqrt(v + 1e-5)", "    return jnp.sum((y), -1)"],
        "another axis": ["    y = jnp.tanh(x) / jnp.sqrt(v + 1e-5)", "    return jnp.sum(y * y, (0))"],
    }


def test_a_fusion_that_does_not_look_at_a_factor_is_caught_by_a_variation(monkeypatch):
    monkeypatch.setattr(fuse_gelu, "_is_scaled", lambda value, x, sign: True)
    assert any(findings(mutant) for mutant in varied_mutants(GELU))


def test_a_seed_always_makes_the_same_mutant():
    assert str(random_mutant(GELU, 3)) == str(random_mutant(GELU, 3))


def test_mutants_differ_in_sizes_places_readers_and_types():
    situations = [random_mutant(formula, seed).situation for formula in FORMULAS for seed in range(8)]
    assert {s.place for s in situations} == {"graph", "branch", "loop", "vmap", "grad"}
    assert {size for s in situations for size in s.sizes.values()} == {0, 1, "symbol", "symbol or 0"}
    assert any(s.read for s in situations)
    assert any(s.twice for s in situations)
    assert {s.dtype for s in situations} >= {"float32", "float16", "bfloat16", "float64"}


def test_a_fusion_that_does_not_look_at_a_number_is_caught(monkeypatch):
    monkeypatch.setattr(fuse_gelu, "_is_scaled", lambda value, x, sign: True)
    assert any(findings(mutant) for mutant in single_mutants(GELU))


def test_a_fusion_that_does_not_look_at_an_operand_is_caught(monkeypatch):
    monkeypatch.setattr(fuse_gelu, "_other_factor", lambda node, curve: next(iter(node.inputs)))
    assert any(findings(mutant) for mutant in single_mutants(GELU))


def test_a_formula_without_its_pass_is_not_formed(monkeypatch):
    monkeypatch.setattr(FuseSilu, "rewrite_graph", lambda self, editor: None)
    assert not is_formed(next(formula for formula in FORMULAS if formula.name == "silu"))


def test_a_mutant_that_jax_refuses_is_no_finding():
    mutant = Mutant(Formula("wrong", {"x": "B 3"}, "return x @ x"), {}, Situation())
    assert mutant.program() is None
    assert findings(mutant) == []


def test_a_finding_is_a_test_that_names_the_mutant(monkeypatch):
    monkeypatch.setattr(fuse_gelu, "_is_scaled", lambda value, x, sign: True)
    [text, *_] = findings(next(m for m in single_mutants(GELU) if m.choices == {"other": "-x"}))
    assert text.startswith("# gelu, other: -x")
    assert "def formula(x):" in text


def test_an_excuse_holds_from_its_magnitude_on(monkeypatch):
    monkeypatch.setattr(fuse_gelu, "_is_scaled", lambda value, x, sign: True)
    wrong = next(m for m in single_mutants(GELU) if m.choices == {"other": "-x"})
    for magnitude, count in ((0.0, 0), (1e9, 1)):
        formula = Formula(GELU.name, GELU.inputs, GELU.body, excuses={"overflow of products": magnitude})
        assert len(findings(Mutant(formula, wrong.choices, Situation()))) == count


def test_the_command_checks_formulas_of_a_module(monkeypatch, capsys):
    asked = []

    def fuzz(seeds, make, **_):
        asked.append((seeds, make))
        return ()

    monkeypatch.setattr("fuzzing.run.fuzz", fuzz)
    assert command.main(["formulas", "--module", MODULE, "--programs", "7", "--seed", "3"]) == 0
    [(seeds, make)] = asked
    assert seeds == range(3, 10)
    assert isinstance(make, functools.partial)
    assert make(0) is not None
    assert "0 with a defect" in capsys.readouterr().out


def test_a_dimension_that_may_be_zero_is_zero_in_one_run():
    program = Mutant(GELU, {}, Situation(sizes={"B": "symbol or 0"})).program()
    [variable] = program.inputs
    assert str(variable.aval.shape[0]) == "B - 1"
    assert {"B": 1} in program.sizes


def test_a_second_reader_makes_a_second_result():
    formula = Formula("difference", {"x": "B 3"}, "d = x - 1\nreturn d * d")
    program = Mutant(formula, {}, Situation(read="d")).program()
    assert len(program.variables) == 2


def test_an_operand_can_stand_in_two_places():
    formula = Formula("product", {"x": "B 3", "y": "B 3"}, "return x * y")
    program = Mutant(formula, {}, Situation(twice=("x", "y"))).program()
    assert program.statements[0].expression == "formula(x0, x0)"


def test_results_of_a_mutant_have_the_dtype_of_the_situation():
    program = Mutant(GELU, {}, Situation("bfloat16")).program()
    assert program.variables[0].aval == jax.ShapeDtypeStruct((2, 5), jnp.bfloat16)
