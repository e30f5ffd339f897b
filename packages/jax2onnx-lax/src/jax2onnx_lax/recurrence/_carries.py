"""`Carry`: a carry of a scan, and its values in all steps, which it knows or gets from the way in which its kind is solved."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Protocol

import jax
import jax.numpy as jnp
from jax2onnx_core import Dim

from jax2onnx_lax.recurrence._errors import UnsuitableError
from jax2onnx_lax.recurrence._values import BatchedArray, Factor, Term, Value, product

__all__ = ["Carry", "Given", "Solution", "delayed", "read_stack"]


class Solution(Protocol):
    """The values of a carry."""

    @property
    def last(self) -> jax.Array:
        """The carry after all steps."""
        ...

    def read(self, term: Term) -> BatchedArray:
        """A term that the carry is part of, in all steps."""
        ...


class Carry:
    """A carry of the scan.

    Attributes:
      index: its place among the carries.
      init: its first value.
    """

    def __init__(self, index: int, init: jax.Array, solve: Callable[[Carry], Solution]) -> None:
        self.index, self.init, self._solve = index, init, solve

    @functools.cached_property
    def solution(self) -> Solution:
        """Its values."""
        return self._solve(self)

    def read(self, term: Term) -> BatchedArray:
        """A term that this carry is part of, in all steps."""
        return self.solution.read(term)


@dataclasses.dataclass(frozen=True)
class Given:
    """A carry whose values before each step are there, [T, ...], and after the last one."""

    before: jax.Array
    last: jax.Array

    def read(self, term: Term) -> BatchedArray:
        """See `Solution`."""
        if term.when == "before":
            return read_stack(term, self.before)
        return read_stack(term, jnp.concatenate([self.before[1:], self.last[None]]))


def delayed(init: jax.Array, after: BatchedArray, length: Dim) -> Given:
    """A carry that each step sets anew, from its values after each step."""
    rows = after.array if after.timed else jnp.broadcast_to(after.array[None], (length, *after.array.shape))
    whole = jnp.concatenate([init[None], rows])
    return Given(whole[:-1], whole[-1])


def read_stack(term: Term, stack: jax.Array) -> BatchedArray:
    """A term with a state whose values are `[T, ...]`."""
    if len(term.axes) != stack.ndim - 1:
        raise UnsuitableError("a state has another rank than its values")
    leaf = Value(stack.shape[1:], stack.dtype, lambda: BatchedArray(stack, True))
    return product((*term.factors, Factor(leaf, term.axes)), term.out, term.scale, dtype=stack.dtype)
