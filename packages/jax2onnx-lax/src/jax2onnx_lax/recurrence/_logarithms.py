"""`logarithm`: the logarithm of the decay of a state in a step."""

from __future__ import annotations

import functools
import math

import jax
import jax.numpy as jnp

from jax2onnx_lax.recurrence._matrix import Matrices
from jax2onnx_lax.recurrence._values import Factor, Label, Term

__all__ = ["logarithm"]


def logarithm(m: Matrices, conditions: list[jax.Array]) -> jax.Array | None:
    """The logarithm of the decay, [T, *batch, K or 1]; None if it is one everywhere.

    Args:
      m: the recurrence.
      conditions: gets what has to hold for the decay to have a logarithm, if that is not certain.
    """
    decay = m.form.decay
    if len(decay) == 1 and not decay[0].factors and decay[0].scale == 1.0:
        return None
    if not decay:
        return jnp.full((m.length, *m.batch_dims, 1), -jnp.inf, m.init.dtype)
    logs = _logarithms(decay[0], m) if len(decay) == 1 else None
    if logs is None:
        total = functools.reduce(jnp.add, [m.stack(t.factors, [m.keys], t.scale) for t in decay])
        conditions.append(jnp.logical_not(jnp.any(total < 0)))
        logs = jnp.log(total)
    return jnp.broadcast_to(logs, (m.length, *m.batch_dims, logs.shape[-1]))


def _logarithms(term: Term, m: Matrices) -> jax.Array | None:
    """The sum of the logarithms of a term's factors; None if one of them may be negative."""
    if term.scale <= 0 or not all(f.value.nonnegative for f in term.factors):
        return None
    place: list[Label] = [m.keys]
    parts = [
        m.stack([f], place) if f.value.logarithm is None else m.stack([Factor(f.value.logarithm, f.labels)], place)
        for f in term.factors
    ]
    logs = [x if f.value.logarithm is not None else jnp.log(x) for f, x in zip(term.factors, parts, strict=True)]
    first = jnp.full((m.length, *(1 for _ in m.batch), 1), math.log(term.scale), m.init.dtype)
    return functools.reduce(jnp.add, logs) if term.scale == 1.0 and logs else functools.reduce(jnp.add, logs, first)
