"""`nn.avg_pool`, `nn.max_pool` and `min_pool` as the layer operations of these names."""

from __future__ import annotations

from jax2onnx_lax.nn.pooling import flax_poolings

__all__ = ["composites"]

composites = flax_poolings("flax.linen:avg_pool", "flax.linen:max_pool", "flax.linen.pooling:min_pool")
