"""Cases of `pooling`."""

from __future__ import annotations

import flax.linen as nn
from flax.linen.pooling import min_pool
from jax2onnx_lax.nn.flax_layers import pooling_cases

__all__ = ["cases"]

cases = pooling_cases(nn.avg_pool, nn.max_pool, min_pool)
