"""Cases of `masks`."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax2onnx_core import Case

__all__ = ["cases"]


def _softmax_of_some(x: jax.Array) -> jax.Array:
    return jax.nn.softmax(x[x > 0])


def _rows(x: jax.Array) -> tuple[jax.Array, ...]:
    kept = x[x[:, 0] > 0]
    return kept.sum(), jnp.arange(kept.shape[0]), kept.reshape(-1), jnp.sort(kept[:, 1]), kept @ x.T


cases = [
    Case("nonzero", lambda x: jnp.nonzero(x > 0), [("B", "T")], covers=("jax.numpy.nonzero",),
         expect=["Greater -> NonZero -> Cast -> Split -> Squeeze", "Split -> Squeeze"], values="special"),
    Case("nonzero_vector", lambda x: jnp.nonzero(x), [(("B",), "int32")], covers=("jax.numpy.nonzero",)),
    Case("argwhere", lambda x: jnp.argwhere(x > 0), [("B", "T")], covers=("jax.numpy.argwhere",),
         expect="Greater -> NonZero -> Transpose -> Cast"),
    Case("where_of_condition", lambda x: jnp.where(x > 0), [("B",)], covers=("jax.numpy.nonzero",)),
    Case("nonzero_possibly_empty", lambda x: (jnp.nonzero(x, size=3), jnp.argwhere(x > 0, size=4, fill_value=-1)),
         [("B - 1", 3)], covers=("jax.numpy.nonzero",), values="special"),
    Case("nonzero_filled_by_a_size_or_number", lambda x: [jnp.nonzero(x, size=3, fill_value=n) for n in (x.shape[0], (x > 0).sum(), (7, x.shape[0]))],
         [("B - 1", 3)], covers=("jax.numpy.nonzero",)),
    Case("masked_softmax", _softmax_of_some, [("B", "T")], covers=("jax.numpy.compress",)),
    Case("masked_rows", _rows, [("B", 4)], covers=("jax.numpy.compress",)),
    Case("masked_gradient", jax.grad(lambda x: (x[x > 0] ** 2).sum()), [("B",)], covers=("jax.numpy.compress",)),
]  # fmt: skip
