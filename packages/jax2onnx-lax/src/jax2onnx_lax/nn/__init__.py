"""Functions of `jax.nn`, `jax.numpy` and `jax.image` that are one operator, and the layer operations of frameworks.

A *layer operation* ("nn.linear", "nn.conv", …) is what a layer of any framework computes. Its rule here says how it is
lowered and documents its operands and parameters; a framework's package binds its classes to it by a composite of that
name, which reads the layer's weights and options. Common to all: channels are the last axis, weights have the layout of
Flax, Haiku and Keras (`[*I, *O]`, `[*window, I, O]`), a missing bias or scale is None, and what an operation cannot
compute it declines, so that the layer's own computation is lowered.
"""

from __future__ import annotations

__all__ = ["MODULES"]

#: The modules that declare rules or composites; `<module>_cases` holds their cases.
MODULES = (
    "activations",
    "attention",
    "conv",
    "embedding",
    "image",
    "linear",
    "normalization",
    "pooling",
    "recurrent",
    "reductions",
)
