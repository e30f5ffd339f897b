"""`is_moderate`: whether numbers are finite and far from overflow."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp

from jax2onnx_lax.complex._arrays import parts

__all__ = ["is_moderate"]

#: The bound of the sum of squares.
_LIMIT = 1e24


def is_moderate(*arrays: jax.Array) -> jax.Array:
    """Whether all numbers are finite and far from overflow, by the sum of their squares."""
    squares = [jnp.sum(x * x) for x in jax.tree.leaves(parts(arrays))]
    return functools.reduce(jnp.add, squares) < _LIMIT
