"""Cases of `resized`."""

from __future__ import annotations

import jax
import numpy as np
from jax2onnx_core import Case

__all__ = ["cases"]

_N = np.asarray(2, np.int32)

cases = [
    Case("reshape_by_number", lambda x, n: x.reshape(n, -1).sum(0), [(12,), _N], covers=("jax2onnx_resized",)),
    Case("reshape_gradient", lambda x, n: jax.grad(lambda x: (x.reshape(-1, n) ** 2).sum())(x), [(12,), _N],
         covers=("jax2onnx_resized",)),
]  # fmt: skip
