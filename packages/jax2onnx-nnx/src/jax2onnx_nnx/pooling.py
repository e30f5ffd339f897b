"""`nnx.avg_pool`, `nnx.max_pool` and `nnx.min_pool` as "nn.avg_pool", "nn.max_pool" and "nn.min_pool"."""

from __future__ import annotations

from jax2onnx_lax.nn.pooling import flax_poolings

__all__ = ["composites"]

composites = flax_poolings("flax.nnx:avg_pool", "flax.nnx:max_pool", "flax.nnx:min_pool")
