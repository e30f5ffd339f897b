"""Kernels of Pallas, by its interpreter: a loop over the grid that computes one block after another."""

from __future__ import annotations

from collections.abc import Sequence

import jax
from jax2onnx_core import Rules

from jax2onnx_lax._compat import interpreted_kernel

__all__ = ["rules"]

rules = Rules()


@rules.decompose("pallas_call")
def pallas_call(*operands: jax.Array, interpret: object, **params: object) -> Sequence[jax.Array]:
    """A kernel that is written for all back ends, as JAX itself runs it with `interpret=True`.

    Memory that a kernel did not write holds what the interpreter puts there, NaN for floating-point numbers. A kernel that uses primitives
    of one device, such as semaphores, has no meaning elsewhere: they are named as primitives that nothing lowers.
    """
    return interpreted_kernel(*operands, **params)
