"""Cases of `checks`."""

from __future__ import annotations

import equinox as eqx
import jax
from jax2onnx_core import Case

__all__ = ["cases"]


def _checked(x: jax.Array) -> jax.Array:
    return eqx.error_if(x, x.sum() > 1e6, "the sum is large") + 1


def _nan_instead(x: jax.Array) -> jax.Array:
    return eqx.error_if(x, x.sum() > 1, "the sum is large", on_error="nan")


cases = [
    Case("check", _checked, [("B", 3)], covers=("equinox.error_if",), expect="Add"),
    # Equinox makes the values of a failed check by NumPy, which takes no symbolic shape.
    Case("check_that_gives_nan", _nan_instead, [(4, 3)], expect="ReduceSum -> Greater -> If:4x3"),
]
