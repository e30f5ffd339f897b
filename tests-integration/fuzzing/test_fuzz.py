"""The fuzzer: what it generates, what it finds wrong, and what it takes for rounding."""

from __future__ import annotations

import multiprocessing
import signal

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from fuzzing import __main__ as command
from fuzzing import check as checking
from fuzzing import run
from fuzzing.check import check
from fuzzing.execution import Exported
from fuzzing.explain import REASONS, explain
from fuzzing.perturbation import perturbed
from fuzzing.programs import Options, Program, Statement, evaluate_shape, generate
from fuzzing.run import Outcome, fuzz, summary
from fuzzing.shrink import as_test, shrink
from fuzzing.statements import Variable

ROW = Variable("x0", jax.ShapeDtypeStruct((3,), jnp.float32))
HALF = Variable("x0", jax.ShapeDtypeStruct((3,), jnp.float16))


def program_of(*expressions: str, inputs: tuple[Variable, ...] = (ROW,)) -> Program:
    """A program whose statements make v1, v2, …"""
    variables, statements = list(inputs), []
    for number, expression in enumerate(expressions, 1):
        statements.append(
            Statement((Variable(f"v{number}", evaluate_shape(expression, variables)),), expression, False)
        )
        variables += statements[-1].targets
    return Program(0, inputs, tuple(statements), ({},), Options(23, x64=False, optimised=True, values="finite"))


@pytest.fixture
def wrong_cumsum(monkeypatch):
    """A runtime whose models compute the result of a cumulative sum wrong."""

    class Wrong(Exported):
        def __init__(self, program, results, parameters):
            super().__init__(program, results, parameters)
            self.wrong = {t.name for s in program.statements if "cumsum" in s.expression for t in s.targets}

        def __call__(self, arguments):
            return {k: v + 1 if k in self.wrong else v for k, v in super().__call__(arguments).items()}

    monkeypatch.setattr(checking, "Exported", Wrong)


def test_a_seed_always_makes_the_same_program():
    first, second = generate(11), generate(11)
    assert first.source(["v3"]) == second.source(["v3"])
    assert first.options == second.options


def test_seeds_make_different_programs():
    assert len({generate(seed).source([]) for seed in range(10)}) == 10


def test_a_right_program_has_no_findings():
    assert check(program_of("jnp.sin(x0)", "jnp.flip(v1)", "v2 + x0")) == []


@pytest.mark.usefixtures("wrong_cumsum")
def test_a_wrong_statement_is_found_and_shrunk_to_itself():
    [finding] = [f for f in check(program_of("jnp.sin(x0)", "jnp.cumsum(v1)", "v2 * 2")) if f.is_defect]
    assert (finding.kind, finding.variable) == ("values", "v2")
    assert [s.expression for s in shrink(finding).program.statements] == ["jnp.cumsum(v1)"]


@pytest.mark.usefixtures("wrong_cumsum")
def test_a_finding_is_printed_as_a_test():
    [finding] = [f for f in check(program_of("jnp.cumsum(x0)")) if f.is_defect]
    text = as_test(finding)
    assert "        v1 = jnp.cumsum(x0)\n" in text
    assert "    program = to_onnx(f, [((3,), 'float32')], opset=23, x64=False)\n" in text
    compile(text, "<test>", "exec")


def test_a_failing_export_is_a_finding(monkeypatch):
    def fail(*_: object) -> None:
        raise KeyError("oops")

    monkeypatch.setattr(checking, "Exported", fail)
    [finding] = check(program_of("jnp.sin(x0)"))
    assert (finding.kind, finding.is_defect) == ("export", True)
    assert finding.text.endswith("KeyError: 'oops'")


def test_what_is_not_supported_is_refused():
    [first, *_] = check(program_of("jax.pure_callback(lambda t: t, x0, x0)"))
    assert (first.kind, first.is_defect) == ("refused", False)


def test_an_error_of_jax_is_its_own():
    [finding] = check(program_of("jax.pure_callback(lambda t: 1 / 0, x0, x0)"))
    assert (finding.kind, finding.is_defect) == ("reference", False)


# -- what is no defect -----------------------------------------------------------------------


def reason_for(expression: str, value: list[float], got: object, dtype: str = "float32") -> str:
    """The explanation of the result `got` of one statement on a row of numbers."""
    program = program_of(expression, inputs=(Variable("x0", jax.ShapeDtypeStruct((len(value),), jnp.dtype(dtype))),))
    arguments = {"x0": np.asarray(jnp.array(value, dtype))}
    want = np.asarray(jax.jit(lambda x0: eval(expression, {"jnp": jnp, "x0": x0}))(arguments["x0"]))
    return explain(program, "v1", arguments, np.asarray(got, want.dtype), want, lambda _: want + 1)


def test_cancelled_digits_are_rounding():
    assert reason_for("jnp.sum(x0)", [1e8, 3.0, -1e8], 8.0) == "rounding"


def test_a_comparison_of_rounded_numbers_is_rounding():
    assert reason_for("jnp.sum(x0) > 1", [1e8, 3.0, -1e8], True) == "rounding"


def test_a_finite_number_for_an_infinite_one_is_no_rounding():
    assert reason_for("x0 * 2", [3e38], [3e38]) == ""


def test_an_exact_operation_is_never_rounding():
    assert reason_for("jnp.floor(x0)", [2.0], [1.0]) == ""


def test_a_wrong_value_is_no_rounding():
    assert reason_for("jnp.sin(x0)", [1.0], [0.8]) == ""


def test_a_finite_number_for_an_overflow_of_half_precision():
    assert reason_for("x0 * x0 / x0", [1000.0], [1000.0], "float16") == "half precision"


def test_the_order_of_nan_follows_its_sign():
    assert (
        reason_for("jnp.sort(-x0)[:1] * 0 + jnp.argpartition(x0, 0)[:1]", [1.0, -np.nan], [0.0])
        == "signs of NaN and zeros"
    )


def test_which_of_two_zeros_is_greater_is_open():
    assert reason_for("1 / jnp.maximum(x0, 0)", [-0.0], [-np.inf]) == "signs of NaN and zeros"


def test_the_sign_of_a_zero_that_was_not_chosen_is_not_open():
    assert reason_for("1 / x0", [-0.0], [np.inf]) == ""


def test_whether_overflowing_products_meet_as_infinities_is_open():
    with jax.enable_x64(True):
        assert reason_for("jnp.vdot(x0, -x0)", [1e200, 2.0], np.nan, "float64") == "overflow of products"
        assert reason_for("x0 - x0", [np.inf], [np.inf], "float64") == ""


def test_what_follows_from_an_explained_difference_is_explained_too():
    overflow = program_of("x0 * x0 / x0", "jnp.isinf(v1)", inputs=(HALF,))
    findings = check(overflow, {"x0": np.full(3, 1000, np.float16)})
    assert {f.reason for f in findings} <= {"half precision"}


def test_every_explanation_has_a_reason():
    assert all(text.endswith(".") for text in REASONS.values())


# -- perturbation -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "function",
    [
        lambda x: lax.scan(lambda c, t: (c + t, c * 2), x[0], x),
        lambda x: lax.while_loop(lambda c: jnp.sum(c) < 20, lambda c: c * 1.5, x),
        lambda x: jax.vmap(lambda t: lax.while_loop(lambda c: c < 9, lambda c: c * 2, t))(x),
        lambda x: lax.cond(x[0] > 0, jnp.sin, jnp.cos, x),
        lambda x: jax.grad(lambda t: jax.nn.softplus(t).sum())(x),
    ],
    ids=["scan", "while", "while under vmap", "cond", "grad"],
)
def test_a_nudged_function_computes_nearly_the_same(function):
    x = jnp.array([1.0, 2.0, 3.0])
    wanted = jax.tree.leaves(function(x))
    results = [perturbed(function)(jnp.float32(seed), x) for seed in range(2)]
    for want, first, second in zip(wanted, *results, strict=True):
        np.testing.assert_allclose(first, want, rtol=1e-5)
        assert (first != second).any()


def test_exact_operations_are_not_nudged():
    [result] = perturbed(lambda x: jnp.sort(-x)[::-1])(jnp.float32(1), jnp.array([1.0, 3.0]))
    assert result.tolist() == [-1.0, -3.0]


# -- running -----------------------------------------------------------------------------------


def test_a_process_that_dies_is_a_defect_of_its_program():
    outcomes = fuzz(range(300), jobs=1, seconds=60)
    next(outcomes)
    [process] = multiprocessing.active_children()
    process.kill()
    died = next(outcome for outcome in outcomes if outcome.defects)
    outcomes.close()
    assert died.defects[0].startswith("The process died: exit code -9.\n")


def test_a_process_that_computes_for_ever_is_ended():
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=_compute_for_ever)
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGXCPU


def _compute_for_ever() -> None:
    run._MOST_SECONDS = 0
    run._limit_time()
    while True:
        pass


def test_a_summary_counts_the_reasons():
    outcomes = [Outcome(0, 4), Outcome(1, 5, ("def …",), ("rounding", "rounding"), ("No plugin\nlowers it",))]
    assert summary(outcomes).splitlines() == [
        "2 programs of 9 statements; 1 with a defect.",
        "Explained: 1",
        "      1 rounding",
        "Refused: 1",
        "      1 No plugin lowers it",
        "Refused by JAX: 0",
    ]


def test_the_command_returns_whether_all_programs_are_right(monkeypatch, capsys):
    monkeypatch.setattr("fuzzing.run.fuzz", lambda seeds, *_, **__: (Outcome(seed, 1) for seed in seeds))
    assert command.main(["programs", "--programs", "3", "--seed", "5"]) == 0
    assert capsys.readouterr().out.startswith("3 programs of 3 statements; 0 with a defect.\n")


def test_a_half_that_is_rounded_for_one_reader_alone_may_differ_from_itself():
    product = "(lambda product: product == product[:1])(x0 * x0 * x0)"
    assert reason_for(product, [1.1, 1.1], [False, True], "float16") == "half precision"
    assert reason_for("x0 == x0[:1]", [1.0, 2.0], [True, True], "float32") == ""
