"""`is_moderate`: whether numbers are finite and far from overflow."""

from __future__ import annotations

import jax
import jax.numpy as jnp

__all__ = ["is_moderate"]

#: The bound of the sum of squares.
_LIMIT = 1e24


def is_moderate(x: jax.Array) -> jax.Array:
    """Whether all numbers are finite and far from overflow, by the sum of their squares."""
    parts = [jnp.real(x), jnp.imag(x)] if jnp.iscomplexobj(x) else [x]
    return sum((jnp.sum(part * part) for part in parts[1:]), jnp.sum(parts[0] * parts[0])) < _LIMIT
