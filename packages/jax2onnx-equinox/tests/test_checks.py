"""Checks at run time: left out of the model, named in the report; those whose outcome is known at once still raise."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax2onnx_core import to_onnx


def checked(x: jax.Array) -> jax.Array:
    return 2 * eqx.error_if(x, x.sum() > 1e6, "the sum is large\nand so on")


def operators(program):
    return [node.op_type for node in program.model.graph]


@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit, eqx.filter_jit, jax.vmap, jax.grad], ids=lambda f: f.__name__)
def test_a_check_is_left_out_and_named_in_the_report(wrap):
    fn = wrap(lambda x: checked(x).sum())
    program = to_onnx(fn, [(4, 3)])
    program.verify()
    assert "equinox.error_if (1×): a model cannot raise 'the sum is large'" in program.report() or wrap is jax.grad


def test_what_is_checked_may_hold_things_that_are_no_arrays():
    def fn(x):
        arrays, function, number = eqx.error_if(([x], jnp.tanh, 3), x.sum() > 1e6, "large")
        return function(arrays[0]) * number

    program = to_onnx(fn, [(3,)])
    assert operators(program) == ["Tanh", "Mul"]


def test_a_branched_check_names_one_message():
    def fn(x):
        return eqx.branched_error_if(x, x[0] > 1e6, (x[0] > 0).astype("int32"), ["zero", "one", "two"])

    assert "a model cannot raise 'zero' or 2 other messages" in to_onnx(lambda x: fn(x) + 1, [(3,)]).report()


def test_a_check_that_fails_for_every_input_raises():
    with pytest.raises(Exception, match="always wrong"):
        to_onnx(lambda x: eqx.error_if(x, True, "always wrong"), [(3,)])


def test_nan_in_place_of_an_error_is_computed():
    def fn(x):
        return eqx.error_if(x, x.sum() > 1, "large", on_error="nan")

    program = to_onnx(fn, [(3,)])
    assert np.isnan(program(np.ones(3, np.float32))).all()
    program.verify()
