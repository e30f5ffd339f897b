"""Helpers of the cases of linear algebra: well-conditioned matrices from random ones, products of factors."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jax2onnx_lax.linalg._matrix import adjoint

__all__ = ["definite", "dominant", "hermitian"]


def hermitian(a: jax.Array) -> jax.Array:
    """A Hermitian matrix of the shape of `a`."""
    return (a + adjoint(a)) / 2


def definite(a: jax.Array) -> jax.Array:
    """A Hermitian, positive definite matrix with eigenvalues of at least 1."""
    return a @ adjoint(a) + jnp.eye(a.shape[-1], dtype=a.dtype)


def dominant(a: jax.Array) -> jax.Array:
    """A well-conditioned matrix."""
    return a / 4 + 3 * jnp.eye(a.shape[-1], dtype=a.dtype)
