"""A helper of composites and cases: layers mapped over the batch axes of their inputs."""

from __future__ import annotations

from collections.abc import Callable

import jax
from jax2onnx_core.jax_types import PyTree

__all__ = ["mapped"]


def mapped(layer: Callable[..., PyTree], times: int) -> Callable[..., PyTree]:
    """The layer under `jax.vmap`, nested as often as its input has batch axes."""
    return mapped(jax.vmap(layer), times - 1) if times else layer
