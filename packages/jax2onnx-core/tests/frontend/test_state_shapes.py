"""Shapes with symbols for states whose arrays have one size at the export."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax2onnx_core import errors, to_onnx

CACHE = {"keys": np.zeros((1, 4, 3), np.float32), "at": np.int32(0)}


def write(cache, x):
    keys = jax.lax.dynamic_update_slice(cache["keys"], x, (0, cache["at"], 0))
    return {"keys": keys, "at": cache["at"] + 1}, keys.sum(1)


def written(batch: int, capacity: int, steps: int) -> list[np.ndarray]:
    cache = {"keys": jnp.zeros((batch, capacity, 3)), "at": jnp.int32(0)}
    results = []
    for step in range(steps):
        cache, y = write(cache, np.full((batch, 1, 3), step + 1, np.float32))
        results.append(np.asarray(y))
    return results


@pytest.mark.parametrize(
    "shape", [("B", "C", 3), ("B", "C", ...), ("B", ..., "D"), (..., "C", 3), ["B", "C", 3]], ids=str
)
def test_an_argument_that_is_a_state_gets_symbols(shape):
    inputs = [CACHE, ("B" if "B" in shape else 1, 1, "D" if "D" in shape else 3)]
    program = to_onnx(write, inputs, states={0: 0}, state_shapes={"keys": shape})
    assert set(program.symbols) == {dim for dim in shape if isinstance(dim, str)}


@pytest.mark.parametrize(("batch", "capacity"), [(1, 1), (2, 3), (5, 17)])
def test_one_program_runs_for_every_batch_and_capacity(batch, capacity):
    program = to_onnx(write, [CACHE, ("B", 1, 3)], states={"cache": 0}, state_shapes={"cache.keys": ("B", "C", ...)})
    session = program.session(sizes={"B": batch, "C": capacity})
    for step, expected in enumerate(written(batch, capacity, 4)):
        np.testing.assert_array_equal(session.step(np.full((batch, 1, 3), step + 1, np.float32)), expected)


def test_dots_alone_leave_a_state_as_it_is():
    program = to_onnx(write, [CACHE, (1, 1, 3)], states={0: 0}, state_shapes={"keys": (...,)})
    assert not program.symbols


def test_the_first_of_several_patterns_counts():
    shapes = {"cache.keys": (1, "C", 3), "*": (...,)}
    program = to_onnx(write, [CACHE, (1, 1, 3)], states={0: 0}, state_shapes=shapes)
    assert set(program.symbols) == {"C"}


WRONG: dict[str, tuple[Any, str]] = {
    "no state": ({"values": ("B", ...)}, "there is no state 'values'; the states are 'cache.at'"),
    "no state of this name": ({"x": ("B", ...)}, "there is no state 'x'"),
    "rank": ({"keys": ("B", "C")}, "is no shape for the state 'cache.keys', which has 3 axes"),
    "more dims than axes": ({"keys": ("B", "C", 3, 4, ...)}, "is no shape for the state"),
    "dots twice": ({"keys": (..., "C", ...)}, "the dots stand twice"),
    "text": ({"keys": "BC"}, "'BC' is no shape"),
    "fraction": ({"keys": (1.5, ...)}, "is no shape"),
    "number": ({0: ("B", ...)}, "0 is no name"),
    "list": ([("B", ...)], "state_shapes maps names of states to shapes"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_fits_no_state_is_an_error(wrong):
    shapes, message = WRONG[wrong]
    with pytest.raises(errors.OptionError, match=message):
        to_onnx(write, [CACHE, (1, 1, 3)], states={0: 0}, state_shapes=shapes)


def test_shapes_without_states_are_an_error():
    with pytest.raises(errors.OptionError, match="there are none"):
        to_onnx(write, [CACHE, (1, 1, 3)], state_shapes={"keys": ("B", ...)})
