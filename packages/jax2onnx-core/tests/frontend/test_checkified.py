"""The parts of an error of `jax.experimental.checkify` have names that say which check and which part they are."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import checkify
from jax2onnx_core.frontend._checkified import error_part_name


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
