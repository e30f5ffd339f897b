"""Functions of `jax.nn`, `jax.numpy` and `jax.image` that are one operator, and the layer operations of frameworks."""

from __future__ import annotations

__all__ = ["MODULES"]

#: The modules that declare rules or composites; `<module>_cases` holds their cases.
MODULES = (
    "activations",
    "attention",
    "image",
    "reductions",
)
