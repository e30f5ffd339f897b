"""A primitive of JAX, with what JAX needs to know about it. This stands for a primitive of your library, which is not here but there."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import batching, mlir

__all__ = ["sawtooth"]

sawtooth_p = Primitive("acme_sawtooth")


def sawtooth(x: jax.Array, *, period: float = 1.0) -> jax.Array:
    """`x` modulo `period`, in [0, period): one equation `acme_sawtooth` in a jaxpr."""
    result: jax.Array = sawtooth_p.bind(x, period=period)
    return result


def _impl(x: jax.Array, *, period: float) -> jax.Array:
    """The values: the meaning of the primitive, and what an exported model is compared with."""
    return x - jnp.floor(x / period) * period


def _abstract_eval(x: ShapedArray, *, period: float) -> ShapedArray:
    """The shape and dtype of the result; dimensions may be symbolic."""
    return x


def _batch(operands: Sequence[jax.Array], axes: Sequence[int], *, period: float) -> tuple[jax.Array, int]:
    """Under `jax.vmap`: the operand has one more axis, here at `axes[0]`, and so has the result."""
    return sawtooth(operands[0], period=period), axes[0]


sawtooth_p.def_impl(_impl)
sawtooth_p.def_abstract_eval(_abstract_eval)
batching.primitive_batchers[sawtooth_p] = _batch
mlir.register_lowering(sawtooth_p, mlir.lower_fun(_impl, multiple_results=False))  # under `jax.jit`
