"""Cases of `runtime_checks`: the named operation without the library, which tests need not have."""

from __future__ import annotations

import jax
from jax2onnx_core import Case, expect_graph

__all__ = ["cases"]


def _checked(x: jax.Array) -> jax.Array:
    return jax.lax.composite(lambda y: y * 1, "equinox.error_if")(x) + 1


cases = [
    Case(
        "values_pass_a_check",
        _checked,
        [("B", 3)],
        covers=("equinox.error_if",),
        expect=expect_graph("Add", match="exact"),
    ),
]
