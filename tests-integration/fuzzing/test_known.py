"""Known differences excuse the elements that their reason is about, and no others."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fuzzing.dependence import depending
from fuzzing.explain import REASONS, explain
from fuzzing.known import KNOWN, KNOWN_ERRORS, explain_error
from fuzzing.programs import Options, Program, Statement, evaluate_shape
from fuzzing.statements import Variable

ATTENTION = "nn.dot_product_attention(x0[None], x0[None], x0[None], is_causal={})"
NAN, INF = np.nan, np.inf


def reason_for(expression, x, wrong, becomes=NAN):
    """The explanation of a result that is JAX's but for the elements at `wrong`, which are `becomes`."""
    x = np.asarray(x)
    variable = Variable("x0", jax.ShapeDtypeStruct(x.shape, x.dtype))
    statement = Statement((Variable("v1", evaluate_shape(expression, [variable])),), expression, False)
    program = Program(
        0, (variable,), (statement,), ({},), Options(23, x64=False, optimised=True, values="finite")
    )  # fmt: skip
    names = {"jnp": jnp, "nn": jax.nn}
    want = np.asarray(jax.jit(lambda x0: eval(expression, {**names, "x0": x0}))(x))
    got = want.copy()
    got[wrong] = becomes
    assert not np.array_equal(got, want, equal_nan=True)
    return explain(program, "v1", {"x0": x}, got, want, lambda _: want + 1)


def keys(*rows):
    """An array [T, N=1, H=2]."""
    return np.array(rows, np.float32).reshape(len(rows), 1, 2)


def test_a_row_that_hides_a_key_of_nan_may_be_nan():
    x = keys([1, 2], [3, 4], [NAN, 1])
    assert reason_for(ATTENTION.format(True), x, (0, slice(0, 2))) == "masked keys"


def test_the_row_that_hides_a_key_of_nan_is_no_other_number():
    x = keys([1, 2], [3, 4], [NAN, 1])
    assert reason_for(ATTENTION.format(True), x, (0, 0), becomes=7) == ""


def test_attention_by_its_formula_hides_keys_of_nan_likewise():
    formula = "nn.softmax(jnp.where(jnp.tril(jnp.ones((x0.shape[0], x0.shape[0]), bool)), x0 @ x0.T, -1e9), -1) @ x0"
    x = np.array([[0, 1], [2, 1], [INF, 3]], np.float32)
    assert reason_for(formula, x, (0, 1)) == "masked keys"
    assert reason_for(formula, x[:2], (0, 0)) == ""


def test_a_row_that_hides_finite_scores_is_exact():
    assert reason_for(ATTENTION.format(True), keys([1, 2], [3, 4], [5, 1]), (0, 0)) == ""


def test_attention_without_a_mask_hides_nothing():
    x = np.concatenate([keys([1, 2], [3, 4], [0, 1]), keys([1, 2], [3, 4], [NAN, INF])], axis=1)
    assert reason_for(ATTENTION.format(False), x, (0, 0, 0)) == ""


def test_a_key_that_is_hidden_from_one_head_excuses_no_other_head():
    x = np.concatenate([keys([1, 2], [3, 4], [NAN, 1]), keys([1, 2], [3, 4], [5, 1])], axis=1)
    assert reason_for(ATTENTION.format(True), x, (0, 0, 0)) == "masked keys"
    assert reason_for(ATTENTION.format(True), x, (0, 0, 1)) == ""


SPECTRA = np.array([[1, complex(0, INF), 2], [1, 2, 3]], np.complex64)


def test_a_real_transform_of_infinities_may_be_nan_in_their_row():
    assert reason_for("jnp.fft.irfft(x0, 4)", SPECTRA, (0, 0)) == "transforms of infinities"


def test_a_real_transform_of_infinities_is_exact_in_other_rows():
    assert reason_for("jnp.fft.irfft(x0, 4)", SPECTRA, (1, 0)) == ""


def test_a_real_transform_of_infinities_is_no_other_number():
    assert reason_for("jnp.fft.irfft(x0, 4)", SPECTRA, (0, 0), becomes=3) == ""


def test_a_complex_transform_is_finite_where_it_is_in_jax():
    x = np.array([[1, INF, 2], [1, 2, 3]], np.float32)
    assert reason_for("jnp.fft.fft(x0)", x, (0, 1), becomes=complex(NAN, NAN)) == "infinite complex numbers"
    assert reason_for("jnp.fft.fft(x0)", x, (1, 1), becomes=complex(NAN, NAN)) == ""
    assert reason_for("jnp.fft.fft(x0)", x, (0, 1), becomes=1) == ""


def test_a_normalisation_overflows_along_an_axis_of_large_numbers():
    x = np.array([[1e19, -1e19, 2], [1, 2, 3]], np.float32)
    assert reason_for("nn.standardize(x0)", x, (0, 1), becomes=-1) == "overflow in a normalisation"
    assert reason_for("nn.standardize(x0)", x[1:], (0, 1), becomes=7) == ""


def test_factors_of_nan_may_be_nan():
    x = np.array([[4, 0, NAN], [0, 4, 0], [NAN, 0, 4]], np.float32)
    assert reason_for("jnp.linalg.cholesky(x0)", x, (0, 0)) == "factors of NaN"
    assert reason_for("jnp.linalg.cholesky(x0)", x, (0, 0), becomes=3) == ""
    assert reason_for("jnp.linalg.cholesky(jnp.eye(3) + 0 * x0)", np.ones((3, 3), np.float32), (0, 0)) == ""


@pytest.mark.parametrize("beside", [-1e-6, NAN, INF])
def test_small_errors_of_activations_are_small_whatever_is_beside_them(beside):
    x = np.array([-1e-6, beside], np.float32)
    assert reason_for("nn.elu(x0)", x, 0, becomes=-1.2e-6) == "small results of activations"
    assert reason_for("nn.elu(x0)", x, 0, becomes=-1e-3) == ""


def test_what_is_found_in_nothing_is_zero_in_jax():
    assert reason_for("jnp.nonzero(x0, size=2, fill_value=-1)[0]", np.zeros(0, np.float32), 0, -1) == "nothing to find"
    assert reason_for("jnp.nonzero(x0, size=2, fill_value=-1)[0]", np.zeros(3, np.float32), 0, 5) == ""


def test_a_runtime_may_refuse_to_slide_over_nothing():
    nothing, something = {"x0": np.zeros((2, 0))}, {"x0": np.zeros((2, 3))}
    text = "At these sizes an image has an axis without elements, which MaxPool of ONNX Runtime does not take"
    assert explain_error(text, nothing) == "nothing to slide over"
    assert explain_error(text, something) == ""
    assert explain_error("Invalid rank for input: x0", nothing) == ""


def test_every_known_difference_has_a_reason():
    assert {known.reason for known in KNOWN} | {*KNOWN_ERRORS.values()} <= REASONS.keys()


# -- which elements depend on which ------------------------------------------------------------------


def depending_on(expression, *inputs):
    """For each element of the result of an expression of x0, x1, … whether it depends on an element of an input that is large."""
    arrays = [np.asarray(x) for x in inputs]
    variables = [Variable(f"x{i}", jax.ShapeDtypeStruct(x.shape, x.dtype)) for i, x in enumerate(arrays)]
    statement = Statement((Variable("v1", evaluate_shape(expression, variables)),), expression, False)
    options = Options(23, x64=False, optimised=True, values="finite")
    program = Program(0, tuple(variables), (statement,), ({},), options)
    named = {v.name: x for v, x in zip(variables, arrays, strict=True)}
    return depending(program, "v1", named, {key: np.abs(x) > 1e9 for key, x in named.items()})


LARGE = np.array([[1, 2, 3], [4, 1e12, 6]], np.float32)


def test_an_elementwise_result_depends_on_its_own_element():
    np.testing.assert_array_equal(depending_on("jnp.sin(x0)", LARGE), LARGE > 1e9)


def test_a_mean_depends_on_all_of_its_row():
    np.testing.assert_array_equal(depending_on("x0.mean(1)", LARGE), [False, True])


def test_a_cumulative_sum_depends_on_what_comes_before():
    np.testing.assert_array_equal(depending_on("jnp.cumsum(x0, 1)", LARGE), [[False] * 3, [False, True, True]])


def test_a_selection_depends_on_what_another_condition_would_choose():
    chosen = np.zeros((2, 3), bool)
    np.testing.assert_array_equal(depending_on("jnp.where(x1, x0, 0)", LARGE, chosen), LARGE > 1e9)


def test_a_key_that_alone_is_seen_depends_on_its_logit():
    logits, place = np.array([[1e12, 2, 3], [1, 2, 3]], np.float32), np.zeros((2, 1), np.int32)
    found = depending_on("nn.softmax(jnp.where(jnp.arange(3) == x1, x0, -1e30), -1)", logits, place)
    np.testing.assert_array_equal(found, [[True] * 3, [False] * 3])


def test_nothing_depends_on_no_elements():
    assert not depending_on("x0.sum()", np.ones(3, np.float32)).any()
