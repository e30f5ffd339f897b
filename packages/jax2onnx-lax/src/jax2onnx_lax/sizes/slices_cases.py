"""Cases of `slices`."""

from __future__ import annotations

import jax.numpy as jnp
from jax2onnx_core import Case

__all__ = ["cases"]

_N = ((), "int32")

cases = [
    Case("mask", lambda x: x[x > 0], [("B", "T")], covers=("jax.numpy.indexing", "jax.numpy.compress"), values="special",
         expect=["Greater -> Reshape -> Compress", "Reshape -> Compress"]),
    Case("mask_of_axis", lambda x: x[:, x[0] > 0], [("B", "T")], covers=("jax.numpy.indexing",)),
    Case("mask_and_number", lambda x: x[x[:, 0] > 0, 1], [("B", 4)], covers=("jax.numpy.indexing",)),
    Case("mask_of_mask", lambda x: x[x > 0][x[x > 0] < 1], [("B",)], covers=("jax.numpy.indexing",)),
    Case("same_mask", lambda x, y: x[y > 0] + y[y > 0], [("B",), ("B",)], covers=("jax.numpy.indexing",)),
    Case("set_where", lambda x: x.at[x > 0].set(7.0), [("B", "T")], covers=("jax.numpy.indexed_update",)),
    Case("multiply_rows", lambda x: x.at[x[:, 0] > 0].multiply(2), [("B", 4)], covers=("jax.numpy.indexed_update",)),
    Case("add_where", lambda x: x.at[x > 0].add(2 * x[x > 0]), [("B", "T")], covers=("jax.numpy.indexed_update",)),
    Case("computed_stop", lambda x, n: x[:n], [("B",), _N], covers=("jax.numpy.indexing",)),
    Case("computed_bounds", lambda x, n: x[-n : n + 2, 1:], [("B", 4), _N], covers=("jax.numpy.indexing",)),
    Case("computed_stop_and_step", lambda x, n: x[:n:2], [("B",), _N], covers=("jax.numpy.indexing",)),
    Case("set_slice", lambda x, n: x.at[1:n, ::2].add(1.0), [("B", 4), _N], covers=("jax.numpy.indexed_update",)),
    Case("steps_of_what_may_be_empty", lambda x: (x[1:][::-1], x[1:, 1:][..., ::-2], x[None, 1:][:, ::2, 0]), [("B", 4)],
         covers=("jax.numpy.indexing",)),
    Case("got", lambda x: (x.at[x > 0].get(), x.at[x[:, 0] > 0, 1].get(mode="fill"), x.at[x.shape[0] - 1].get(mode="clip"), x.at[::-1].get()),
         [("B", 4)], covers=("jax.numpy.indexing",)),
    Case("got_of_what_may_be_empty", lambda x: (x[1:].at[::-1].get(), x.at[x.shape[0]].get(mode="fill", fill_value=3.0)), [("B", 4)],
         covers=("jax.numpy.indexing",)),
    Case("got_between", lambda x, n: (x.at[:n].get(), x.at[n:, 1].get(mode="clip")), [("B", 4), _N], covers=("jax.numpy.indexing",)),
    Case("one_boolean", lambda x: (x[x.sum() > 0], x[..., x.sum() > 0], x[x.sum() > 0, 1], x[:1, x.sum() > 0, 0]),
         [("B", 4)], covers=("jax.numpy.indexing", "jax.numpy.compress")),
    Case("set_by_one_boolean", lambda x: (x.at[x.sum() > 0].set(7.0), x.at[x.sum() > 0, 1].add(x[0, 0]), x.at[:, x.sum() > 0, 1].set(2.0)),
         [("B", 4)], covers=("jax.numpy.indexed_update",)),
    Case("parts", lambda x: jnp.concatenate([x[x > 0], x[x <= 0]]), [("B",)], covers=("jax.numpy.indexing",)),
]  # fmt: skip
