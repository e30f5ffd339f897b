"""Arrays of weights for the cases of layer operations."""

from __future__ import annotations

import numpy as np
from jax2onnx_graph.build.builder import Array

__all__ = ["weights"]


def weights(*shape: int) -> Array:
    """A float64 array of this shape, of different numbers between -1 and 1; a case converts it to the dtype of its input."""
    size = int(np.prod(shape))
    return np.sin(np.arange(1, size + 1) * 1.3).reshape(shape)
