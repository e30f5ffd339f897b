"""Which distribution supplies a primitive that no installed plugin claims."""

from __future__ import annotations

import importlib.metadata

__all__ = ["supplier_of"]


def supplier_of(primitive: str) -> str | None:
    """The known supplier of a primitive, if it is not installed.

    Composites are called `<family>.<operation>` after the framework; everything else is JAX's own.
    """
    family = primitive.partition(".")[0] if "." in primitive else "lax"
    distribution = f"jax2onnx-{family}"
    installed = {d.name for d in importlib.metadata.distributions()}
    return None if distribution in installed else distribution
