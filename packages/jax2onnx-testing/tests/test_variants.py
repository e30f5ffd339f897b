"""Cases become variants; variants are built."""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest
from jax2onnx_core import Case, construct, expect_graph, with_dtype
from jax2onnx_core.plugins.cases import CaseRun
from jax2onnx_graph import ir
from jax2onnx_testing._transforms import NotApplicableError, Transformed
from jax2onnx_testing.checks import assert_close, check_values, check_variant
from jax2onnx_testing.collection import BrokenPlugin, CollectedCase
from jax2onnx_testing.errors import CheckFailedError, KnownLimitationError
from jax2onnx_testing.matcher import GraphMismatchError
from jax2onnx_testing.suite import run_test
from jax2onnx_testing.variants import PRECISIONS, Variant, build, fill_in, quick_variants_of, variants_of


def found(*args, **kwargs) -> CollectedCase:
    return CollectedCase("jax2onnx-demo", "demo.layers", Case(*args, **kwargs))


def test_a_case_without_symbols_has_two_variants():
    ids = [v.id for v in variants_of(found("exp", jnp.exp, [(3,)]))]
    assert ids == ["demo.layers::exp[f32-static]", "demo.layers::exp[f64-static]"]


def test_a_case_with_symbols_is_also_tested_with_numbers():
    ids = [v.id.partition("[")[2] for v in variants_of(found("exp", jnp.exp, [("B", 3)]))]
    assert ids == ["f32-static]", "f32-symbolic]", "f64-static]", "f64-symbolic]"]


@pytest.mark.parametrize(
    ("spec", "symbolic"),
    [((3,), False), (("B",), True), ((None, 2), True), (((3,), "int32"), False), ((("B",), "int32"), True),
     ({"a": ("B",)}, True), (((2,), np.int8), False), (np.zeros(3), False)],
)  # fmt: skip
def test_symbols_are_found_in_every_kind_of_specification(spec, symbolic):
    assert len(list(variants_of(found("f", lambda x: x, [spec])))) == (4 if symbolic else 2)


def test_placeholders_are_filled_in_anew_for_each_variant():
    made = construct(dict, dtype=with_dtype(), inner=construct(list, (1, 2)))
    assert fill_in(made, "f32") == {"dtype": np.dtype("float32"), "inner": [1, 2]}
    assert fill_in(made, "f64")["dtype"] == np.dtype("float64")
    assert fill_in(made, "f64")["inner"] is not fill_in(made, "f64")["inner"]


def test_a_static_variant_has_a_number_for_each_symbol():
    case = found("add", lambda x, y: x.sum() + y.sum(), [("B", "T"), ("T",)], options={"constraints": ["B >= 4"]})
    built = build(Variant(case, "f32", symbolic=False))
    first, second = built.inputs
    assert first.shape[0] >= 4
    assert first.shape[1] == second.shape[0]
    assert first.shape[0] != first.shape[1]
    assert "constraints" not in built.options


def test_arrays_take_the_precision_of_the_variant_and_keep_their_values():
    built = build(Variant(found("f", jnp.exp, [np.ones(3, np.float32)]), "f64", symbolic=False))
    assert built.inputs[0].dtype == np.float64


def test_a_right_case_passes():
    for variant in variants_of(found("tanh", jnp.tanh, [("B", 3)], values="special", expect=expect_graph("Tanh:Bx3"))):
        check_variant(variant)


def test_a_case_that_skips_float32_is_asserted_of_float64():
    case = found("tanh", jnp.tanh, [(3,)], expect="Exp", skip={"f32": "not needed"})
    [quick] = quick_variants_of(case, PRECISIONS, number=1)
    assert quick.precision == "f64"
    with pytest.raises(GraphMismatchError, match="there is no Exp"):
        check_variant(quick)


def test_an_expectation_that_does_not_hold_fails():
    variant = Variant(found("tanh", jnp.tanh, [(3,)], expect=expect_graph("Exp")), "f32", symbolic=False)
    with pytest.raises(GraphMismatchError, match="there is no Exp"):
        check_variant(variant)


def test_the_tolerance_is_that_of_the_precision():
    case = found("exp", jnp.exp, [(3,)], rtol={"f32": 1e-2})
    f32, f64 = (Variant(case, precision, symbolic=False) for precision in PRECISIONS)
    program, want, got = build(f64).export(), [np.ones(3)], [np.full(3, 1.001)]
    check_values(program, want, f32, {}, got)
    with pytest.raises(CheckFailedError, match="differs from JAX in 3 of 3 elements"):
        check_values(program, want, f64, {}, got)


def _only_zeros(model: ir.Model, run: CaseRun) -> None:
    assert [node.op_type for node in model.graph] == ["Sub"]
    [x], [y] = run.inputs.values(), run.outputs.values()
    assert x.shape == y.shape == (run.sizes["B"],)
    assert not y.any(), "There is a number that is not 0."


def test_a_check_sees_the_model_and_each_run():
    case = found("zero", lambda x: x - x, [("B",)], check=_only_zeros)
    check_variant(Variant(case, "f32", symbolic=True))


@pytest.mark.parametrize(
    ("fn", "message"),
    [
        (lambda x: x - x / 2, r"assert \['Div', 'Sub'\] == \['Sub'\]"),
        (lambda x: x - 1, "There is a number that is not 0."),
    ],
)
def test_the_failure_of_a_check_names_the_case_and_says_why(fn, message):
    case = found("zero", fn, [("B",)], check=_only_zeros)
    with pytest.raises(CheckFailedError, match=r"The check of demo.layers::zero fails at B = \d+: .*" + message):
        check_variant(Variant(case, "f32", symbolic=True))
    check_variant(Variant(case, "f64", symbolic=True))


def test_a_check_asserts():
    case = found("zero", jnp.exp, [(3,)], check=lambda model, run: len(model.graph) == 9)
    with pytest.raises(CheckFailedError, match=r"The check of demo.layers::zero returns False, which nobody reads"):
        check_variant(Variant(case, "f32", symbolic=False))


def test_an_error_in_a_check_names_the_case_and_the_line():
    case = found("zero", jnp.exp, [(3,)], check=lambda model, run: run.outputs["absent"])
    with pytest.raises(CheckFailedError, match=r"The check of demo.layers::zero .*: KeyError: 'absent' \(case = found"):
        check_variant(Variant(case, "f32", symbolic=False))


def test_the_reasons_of_a_case_are_looked_for():
    expected = {"declines": "the product has the type of its operands"}
    check_variant(Variant(found("square", lambda x: x * x, [(3,)], **expected), "f32", symbolic=False))
    case = found("exp", jnp.exp, [(3,)], **expected)
    with pytest.raises(
        CheckFailedError, match=r"Nothing declines in demo.layers::exp because the product .*: no reason\."
    ):
        check_variant(Variant(case, "f32", symbolic=False))
    check_variant(Variant(case, "f64", symbolic=False))


@pytest.mark.parametrize(
    ("since", "message"),
    [
        ("99", r"The case demo.layers::exp says since='99', but jax2onnx-testing is at \d"),
        ("soon", "The case demo.layers::exp says since='soon', which is no version"),
    ],
)
def test_a_version_that_does_not_exist_is_refused(since, message):
    case = dataclasses.replace(found("exp", jnp.exp, [(3,)], since=since), distribution="jax2onnx-testing")
    with pytest.raises(CheckFailedError, match=message):
        check_variant(Variant(case, "f32", symbolic=False))


@pytest.mark.parametrize("distribution", ["jax2onnx-testing", "not-installed"])
def test_a_version_that_exists_is_accepted(distribution):
    case = dataclasses.replace(found("exp", jnp.exp, [(3,)], since="0.1"), distribution=distribution)
    check_variant(Variant(case, "f32", symbolic=False))


def test_a_function_that_gives_another_result_each_time_fails():
    state = iter(range(10_000))
    variant = Variant(found("f", lambda x: x + next(state), [(3,)]), "f32", symbolic=False)
    with pytest.raises(CheckFailedError, match="not the same bytes"):
        check_variant(variant)


def test_the_quick_suite_exports_one_in_eight_variants_twice(monkeypatch):
    seen = []
    monkeypatch.setattr("jax2onnx_testing.suite.check_variant", lambda _, *, twice: seen.append(twice))
    variants = [Variant(found(f"f{i}", jnp.exp, [(3,)]), "f32", symbolic=False) for i in range(400)]
    for variant in variants:
        run_test(variant, quick=True)
    assert 20 < sum(seen) < 100
    seen.clear()
    for variant in variants:
        run_test(variant)
    assert all(seen)


_PLAIN = Variant(found("exp", jnp.exp, [(3,)]), "f32", symbolic=False)
_SKIPPED = Variant(found("exp", jnp.exp, [(3,)], skip={"f32": "slow"}), "f32", symbolic=False)
_OF_ANOTHER_TARGET = found("exp", jnp.exp, [(3,)], options={"target": "onnx"})
_VMAP = Transformed(found("exp", jnp.exp, [(3,)]), "vmap")


@pytest.mark.parametrize(
    ("test", "raised", "outcome", "message"),
    [
        (BrokenPlugin("jax2onnx-demo", ValueError("broken")), None, ValueError, "broken"),
        (_SKIPPED, None, pytest.skip.Exception, "slow"),
        (_PLAIN, None, None, None),
        (_PLAIN, KnownLimitationError("no Exp"), pytest.xfail.Exception, "no Exp"),
        (_PLAIN, CheckFailedError("wrong"), CheckFailedError, "wrong"),
        (_VMAP, None, None, None),
        (_VMAP, NotApplicableError("no axis"), pytest.skip.Exception, "no axis"),
        (_VMAP, KnownLimitationError("no Exp"), pytest.xfail.Exception, "no Exp"),
        (_VMAP, CheckFailedError("wrong"), CheckFailedError, "wrong"),
        (Transformed(_SKIPPED.found, "vmap"), CheckFailedError("it is checked"), pytest.skip.Exception, "slow"),
        (Transformed(_OF_ANOTHER_TARGET, "vmap", "toy"), None, pytest.skip.Exception, "about the target 'onnx'"),
    ],
)
def test_what_is_found_is_the_outcome_of_a_test(test, raised, outcome, message, monkeypatch):
    seen = []

    def check(test, **_):
        seen.append(test)
        if raised is not None:
            raise raised

    for name in ("check_variant", "check_transformed"):
        monkeypatch.setattr(f"jax2onnx_testing.suite.{name}", check)
    if outcome is None:
        run_test(test)
        assert seen == [test]
    else:
        with pytest.raises(outcome, match=message):
            run_test(test)


def test_wrong_values_fail():
    with pytest.raises(
        CheckFailedError, match=r"differs from JAX in 1 of 2 elements, largest difference 0\.1; the first is at \(1,\)"
    ):
        assert_close(np.array([1.0, 2.0]), np.array([1.0, 2.1]), "Output 'y'")


@pytest.mark.parametrize(
    ("got", "message"), [(np.zeros(2, np.float64), "dtype float64"), (np.zeros(3, np.float32), r"shape \(3,\)")]
)
def test_wrong_types_and_shapes_fail(got, message):
    with pytest.raises(CheckFailedError, match=message):
        assert_close(got, np.zeros(2, np.float32), "Output 'y'")
