"""Symbolic sizes that may turn out to be zero."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import jax
from jax import lax
from jax.extend.core import Primitive
from jax2onnx_core.jaxprs import is_positive, is_static

from jax2onnx_lax.linalg._matrix import max_dim, resized

__all__ = ["never_empty"]

_Arrays = jax.Array | tuple[jax.Array, ...]
_Decomposition = Callable[..., _Arrays]


def never_empty(name: str) -> Callable[[_Decomposition], _Decomposition]:
    """Decorator of the decomposition of the primitive `name` of `jax.lax.linalg`, which is written for sizes from 1 on.

    Where an axis may be empty when the model runs, it gets at least one entry, zero, and the results are cut to their
    own sizes. Sizes that are known, zero among them, are as they are.
    """
    primitive: Primitive = vars(lax.linalg)[f"{name}_p"]

    def decorate(fn: _Decomposition) -> _Decomposition:
        @functools.wraps(fn)
        def wrapped(*operands: jax.Array, **params: object) -> _Arrays:
            filled = [_filled(x) for x in operands]
            if all(a is b for a, b in zip(filled, operands, strict=True)):
                return fn(*operands, **params)
            shapes = jax.eval_shape(functools.partial(primitive.bind, **params), *operands)
            results = fn(*filled, **params)
            if isinstance(results, jax.Array):
                return _cut(results, shapes.shape)
            return tuple(_cut(x, s.shape) for x, s in zip(results, shapes, strict=True))

        return wrapped

    return decorate


def _filled(x: jax.Array) -> jax.Array:
    """`x` with at least one entry along every axis of a size that is not known."""
    for axis, size in enumerate(x.shape):
        if not is_static(size) and not is_positive(size):
            x = resized(x, axis, max_dim(size, 1))
    return x


def _cut(x: jax.Array, shape: Sequence[int]) -> jax.Array:
    """The first entries of `x` along every axis."""
    for axis, size in enumerate(shape):
        x = x if x.shape[axis] == size else resized(x, axis, size)
    return x
