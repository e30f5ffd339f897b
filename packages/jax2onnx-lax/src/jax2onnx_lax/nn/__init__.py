"""Functions of `jax.nn`, `jax.numpy` and `jax.image` that are one operator, and the layer operations of frameworks.

A *layer operation* ("nn.linear", "nn.attention", …) is the computation of a layer that every framework has. Its rule lowers it,
and documents its operands and parameters; a framework's package binds its classes to it by a composite of that name, which
reads the layer's weights and options. `tools/layer_operations.py` collects these docstrings on a reference page.
"""

from __future__ import annotations

__all__ = ["MODULES"]

#: The modules that declare rules or composites; `<module>_cases` holds their cases.
MODULES = (
    "activations",
    "attention",
    "embedding",
    "image",
    "linear",
    "normalization",
    "pooling",
    "reductions",
)
