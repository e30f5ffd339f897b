"""A library of layers, whose calls the tests of claims declare to be composites."""

from __future__ import annotations

import jax
import jax.numpy as jnp


class Scaled:
    """The sine of a scaled tangent."""

    def __init__(self, scale: float = 0.5) -> None:
        self.scale = scale

    @property
    def factor(self) -> float:
        return self.scale * 3

    def project(self, x: jax.Array) -> jax.Array:
        return jnp.tanh(x) * self.factor

    def unused(self, x: jax.Array) -> jax.Array:
        return x

    def __call__(self, x: jax.Array) -> jax.Array:
        return activated(self.project(x))


class Slotted:
    """An object that nobody can change."""

    __slots__ = ()

    def project(self, x: jax.Array) -> jax.Array:
        return jnp.tanh(x)

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.project(x) + 1


def activated(x: jax.Array) -> jax.Array:
    return jnp.sin(x)


ONE = jnp.ones(())


def unit() -> jax.Array:
    return ONE


def strict(x: jax.Array) -> jax.Array:
    if unit() is not ONE:
        raise ValueError("The unit has to be the one of this module.")
    return jnp.cos(x)
