"""Functions of `jax.experimental.checkify`: their errors are results of the model."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import checkify
from jax2onnx_core import errors, to_onnx


def _checked(x):
    checkify.check(jnp.all(x < 9), "too large")
    checkify.check(jnp.sum(x) > 0, "the sum is {s}", s=jnp.sum(x))
    return jnp.sqrt(x)


def _divided(x):
    return jnp.log(x) / x


def _looped(x):
    return jax.lax.fori_loop(0, 3, lambda _, c: jnp.log(c), x)


RUNS = [np.ones(3, np.float32), -np.ones(3, np.float32), np.zeros(3, np.float32), np.full(3, 10, np.float32)]
FUNCTIONS = {
    "checks": (_checked, checkify.user_checks),
    "floats": (_divided, checkify.float_checks),
    "a loop": (_looped, checkify.float_checks),
    "all": (_checked, checkify.user_checks | checkify.float_checks),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("wrapped", [lambda fn: fn, jax.jit], ids=["plain", "jit"])
def test_errors_are_those_of_jax(name, wrapped):
    fn = wrapped(checkify.checkify(FUNCTIONS[name][0], errors=FUNCTIONS[name][1]))
    program = to_onnx(fn, [("B",)])
    assert [program(x)[0].get() for x in RUNS] == [fn(jnp.asarray(x))[0].get() for x in RUNS]
    program.verify()


def test_errors_of_a_batch_are_those_of_jax():
    fn = jax.vmap(checkify.checkify(_divided, errors=checkify.float_checks))
    program, x = to_onnx(fn, [(4, 3)]), np.stack(RUNS)
    assert program(x)[0].get() == fn(jnp.asarray(x))[0].get()
    program.verify()


def test_the_parts_of_an_error_have_names():
    program = to_onnx(checkify.checkify(_checked), [("B",)])
    assert program.output_names == [
        "error.failed.FailedCheckError", "error.failed.FailedCheckError(float32)", "error.code.FailedCheckError",
        "error.code.FailedCheckError(float32)", "error.payload.FailedCheckError(float32).0", "output_1",
    ]  # fmt: skip


def test_the_parts_of_an_error_under_a_key_are_named_after_it():
    def fn(x):
        error, y = checkify.checkify(_divided, errors=checkify.nan_checks)(x)
        return {"state": error, "y": y}

    assert to_onnx(fn, [("B",)]).output_names == ["state.failed.NaNError", "state.code.NaNError", "y"]


def test_codes_are_the_same_in_each_export():
    fn = checkify.checkify(_checked)
    first, second = (to_onnx(fn, [("B",)]).model_proto.SerializeToString(deterministic=True) for _ in range(2))
    assert first == second


def test_results_that_are_nested_too_deep_are_seen_before_their_errors():
    def nested(x):
        for _ in range(3000):
            x = [x]
        return x

    with pytest.raises(errors.ConversionError, match="nested more than 100 deep"):
        to_onnx(nested, [(3,)])
