"""Cases of `selections`."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax2onnx_core import Case

__all__ = ["cases"]

_N, _COUNTS = np.asarray(5, np.int32), (("B",), "int32")

cases = [
    Case("compress", lambda x: jnp.compress(x[:, 0] > 0, x, axis=0), [("B", 4)], covers=("jax.numpy.compress",)),
    Case("extract", lambda x: jnp.extract(x > 0, x), [("B", 4)], covers=("jax.numpy.compress",)),
    Case("delete", lambda x, i: jnp.delete(x, i % x.shape[0], axis=0), [("B", 4), _COUNTS], covers=("jax.numpy.delete",)),
    Case("delete_mask", lambda x: jnp.delete(x, x[:, 0] > 0, axis=0), [("B", 4)], covers=("jax.numpy.delete",)),
    Case("repeat", lambda x, n: jnp.repeat(x, n % 3, axis=0), [("B", 4), _COUNTS], covers=("jax.numpy.repeat",)),
    Case("bincount", lambda x: jnp.bincount(x % 5, minlength=2), [_COUNTS], covers=("jax.numpy.bincount",)),
    Case("histogram", lambda x, n: jnp.histogram(x, n + 1), [("B",), _N],
         covers=("jax.numpy.histogram", "jax.numpy.histogram_bin_edges")),
    Case("trim_zeros", lambda x: jnp.trim_zeros(x), [_COUNTS], covers=("jax.numpy.trim_zeros",)),
    Case("roll", lambda x: (jnp.roll(x[x > 0], 1), jnp.roll(x[x > 0], -3)), [("B",)], covers=("jax.numpy.roll",)),
    Case("roll_of_no_rows", lambda x: jnp.roll(x, (1, -2), (0, 1)), [("B", 3)], options={"constraints": ("B >= 0",)},
         covers=("jax.numpy.roll",)),
    Case("take_along_axis_of_no_rows", lambda x: jnp.take_along_axis(x, np.array([[0, 7], [-1, 1]]), 0), [("B", 2)],
         options={"constraints": ("B >= 0",)}, covers=("jax.numpy.take_along_axis",)),
    Case("split", lambda x, n: jnp.split(x, [n // 3, n // 2]), [(7,), _N], covers=("jax.numpy.split",)),
]  # fmt: skip
