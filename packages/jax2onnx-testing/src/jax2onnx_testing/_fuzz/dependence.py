"""Which elements of a result depend on certain elements of the inputs, whatever the others are."""

from __future__ import annotations

from collections.abc import Mapping

import jax.numpy as jnp
import numpy as np
from jax2onnx_graph.arrays import Array

from jax2onnx_testing._fuzz.execution import Arrays, evaluator
from jax2onnx_testing._fuzz.programs import Program
from jax2onnx_testing.values import random_array

__all__ = ["depending"]

_DRAWS = 8
_OTHERS = 2


def depending(program: Program, name: str, arguments: Arrays, places: Mapping[str, Array]) -> Array:
    """For each element of a variable whether it depends on one of the elements at `places`.

    A result depends on an element if it changes with it, for some numbers in place of all others: a mask that hides the element now, or
    a gate that is closed now, may show it then. All numbers are ordinary ones, so that what changes depends on nothing else.

    Args:
      program: the program that computes the variable.
      name: the variable.
      arguments: the inputs of the program, whose numbers of integers and truth values are one of the choices.
      places: for each input by name whether each of its elements is one of them.
    """
    run = evaluator(program, [name])
    [result] = run(arguments)
    found = np.zeros(result.shape, bool)
    if not any(mask.any() for mask in places.values()):
        return found
    for draw in range(_DRAWS):
        random = np.random.default_rng([program.seed, draw])
        # Integers are counts and positions: the given ones first, then small ones, then larger ones.
        numbers = {
            key: value if draw == 0 and _is_counted(value) else _ordinary(random, value, draw)
            for key, value in arguments.items()
        }
        [first] = run(numbers)
        for _ in range(_OTHERS):
            other = {key: _ordinary(random, value, draw) for key, value in arguments.items()}
            [second] = run({key: np.where(places[key], other[key], numbers[key]) for key in arguments})
            found |= (first != second) & ~(_is_nan(first) & _is_nan(second))
    return found


def _ordinary(random: np.random.Generator, value: Array, draw: int) -> Array:
    """Random numbers between -1 and 1, or natural numbers, the larger the later they are drawn, of the shape and dtype of an array."""
    if _is_counted(value) and value.dtype != np.bool_:
        return random.integers(0, min(4**draw + 1, np.iinfo(value.dtype).max), value.shape).astype(value.dtype)
    return np.asarray(random_array(random, value.dtype, value.shape, "unit"))


def _is_counted(value: Array) -> bool:
    """Whether an array is of integers or truth values."""
    return not jnp.issubdtype(value.dtype, jnp.inexact)


def _is_nan(array: Array) -> Array:
    return array != array
