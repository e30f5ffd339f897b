"""Cases of `branches`."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax
from jax2onnx_core import Case

__all__ = ["cases"]


def _either(x: jax.Array) -> jax.Array:
    return lax.cond(x.sum() > 0, lambda: jnp.arange(2 + 0 * x.shape[0]), lambda: jnp.arange(2))


cases = [
    Case("cond_of_equal_sizes", _either, [("B",)], covers=("jax.lax.cond",)),
    Case("switch_of_equal_sizes", lambda x: lax.switch(jnp.argmax(x), [jnp.sin, jnp.cos], x), [("B",)],
         covers=("jax.lax.switch",)),
]  # fmt: skip
