"""The parts of an error of `jax.experimental.checkify` have names that say which check and which part they are."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import checkify
from jax2onnx_core.frontend._checkified import error_part_name, with_numbered_checks


def names(results):
    return [error_part_name(path) for path, _ in jax.tree_util.tree_flatten_with_path(results)[0]]


def checked(x):
    checkify.check(jnp.sum(x) > 0, "the sum is {s}", s=jnp.sum(x))
    return jnp.log(x)


def both(x):
    return checkify.checkify(checked, errors=checkify.user_checks | checkify.nan_checks)(x)


@pytest.fixture(scope="module")
def results():
    return jax.eval_shape(both, np.ones(3, np.float32))


def test_parts_are_named_after_the_error_the_part_and_the_kind(results):
    found = names(results)
    assert found[-1] is None
    assert len(set(found)) == len(found)
    assert {name.split(".")[1] for name in found[:-1]} == {"failed", "code", "payload"}
    assert "error.failed.NaNError" in found
    assert any(name.startswith("error.payload.FailedCheckError") for name in found[:-1])


def test_an_error_in_a_mapping_has_the_name_of_its_key(results):
    assert "loss.failed.NaNError" in names({"loss": results[0]})


def test_what_is_no_error_has_no_name_of_one():
    assert names({"a": 1, "b": [2, 3]}) == [None, None, None]


def test_checks_are_numbered_in_their_order_however_often_a_function_was_traced():
    def three(x):
        for least in (0.0, 1.0, 2.0):
            checkify.check(x > least, "at most {least}", least=jnp.float32(least))
        return x

    for x, code, message in [(-1.0, 1, "at most 0"), (0.5, 2, "at most 1"), (1.5, 3, "at most 2"), (3.0, 3, None)]:
        error, result = with_numbered_checks(checkify.checkify(three)(jnp.float32(x)))
        assert result == x
        assert [int(found) for found in error._code.values()] == [code]
        assert error.get() is None if message is None else message in error.get()


def test_codes_of_a_batch_are_numbered():
    errors = jax.vmap(lambda x: with_numbered_checks(checkify.checkify(checked)(x))[0])(
        jnp.array([[1.0, 1.0], [-1.0, -1.0]])
    )
    codes = {type_.error_type.__name__: np.asarray(code).tolist() for type_, code in errors._code.items()}
    assert codes["FailedCheckError"] == [1, 1]


def test_results_without_errors_stay():
    assert with_numbered_checks({"a": 1, "b": (2.0,)}) == {"a": 1, "b": (2.0,)}
