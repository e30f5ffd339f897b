"""Cases of `creation`."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax2onnx_core import Case

from jax2onnx_lax._case_helpers import at_most

__all__ = ["cases"]

cases = [
    Case("iota_static", lambda x: x + lax.broadcasted_iota(x.dtype, (2, 3), 1), [(2, 3)], covers=("iota",),
         expect="Add:2x3"),
    Case("iota_long", lambda: lax.broadcasted_iota(np.int32, (3, 5000), 1), [], covers=("iota",),
         expect="Range -> Unsqueeze -> Expand"),
    Case("iota_symbolic", lambda x: lax.broadcasted_iota(np.int32, (2, x.shape[0]), 1), [("B",)], covers=("iota",),
         expect=["Shape -> Squeeze -> Cast -> Range -> Unsqueeze -> Expand", "Concat -> Expand"]),
    Case("arange", lambda x: jnp.arange(x.shape[0], dtype=x.dtype) * x, [("B",)], covers=("iota",),
         expect="Shape -> Squeeze -> Range -> Cast -> Add -> Mul"),
    Case("arange_from_to", lambda x: jnp.arange(1, 2 * x.shape[0] + 1, 2), [("B",)], covers=("iota",),
         expect="Shape -> Squeeze -> Cast -> Range -> Mul -> Add"),
    Case("eye", lambda x: jnp.eye(x.shape[0], x.shape[1], dtype=x.dtype) + x, [("B", "N")], covers=("iota",),
         expect=at_most(20)),
    Case("tril", jnp.tril, [("B", "N")], covers=("iota",), expect=at_most(20)),
    Case("one_hot", lambda i, x: jax.nn.one_hot(i, x.shape[0]), [np.array([0, 2, 9], np.int32), ("N",)],
         expect=["Shape -> Squeeze -> Cast -> Range -> Equal -> Cast", "Unsqueeze -> Equal"]),
    Case("complex_iota", lambda: lax.iota(np.complex64, 5).real, [], covers=("iota",), expect="Identity"),
    Case("empty", lambda x: jnp.empty((2, 3), x.dtype) * 0 + x, [(2, 3)], covers=("empty", "empty2"), expect="Add"),
    Case("empty_complex", lambda x: lax.empty(x.shape, np.complex64) + x, [("B", 3)], covers=("empty", "empty2"),
         expect=at_most(20, Gather=2)),
    Case("empty_keys", lambda: jax.random.key_data(jnp.empty((2, 3), jax.random.key(0).dtype)), [], expect="Identity"),
    Case("zeros_like", jnp.zeros_like, [("B", 3)], covers=("zeros_like", "broadcast_in_dim"),
         expect="Shape -> Concat -> Expand"),
    Case("dimension_as_value", lambda x: x * x.shape[0] + x.shape[1], [("B", "N")],
         covers=("dim_as_value", "dimension_size", "shape_assertion"),
         expect=["Shape -> Squeeze -> Cast -> Cast -> Mul -> Add", "Shape -> Squeeze -> Cast -> Cast -> Add"]),
    Case("mean_over_symbols", lambda x: x.mean((0, 1)), [("B", "N", 3)], covers=("dim_as_value",), expect="ReduceMean"),
    Case("dimension_arithmetic", lambda x: jnp.full((3,), (x.shape[0] + 1) // 2 * x.shape[1] % 5), [("B", "N")],
         covers=("dim_as_value",),
         expect=["Shape -> Add -> Div -> Mul -> Mod -> Squeeze -> Cast -> Expand", "Shape -> Mul"]),
]  # fmt: skip
