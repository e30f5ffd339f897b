"""What the composites of all layers share, and their cases."""

from __future__ import annotations

from collections.abc import Callable

import jax
from jax2onnx_core.jax_types import PyTree
from jax2onnx_lax.dtypes import is_float_array

__all__ = ["mapped", "one_float_type"]


def one_float_type(*arrays: jax.Array | None) -> bool:
    """Whether those that are no None are floats, all of one type."""
    present = [x for x in arrays if x is not None]
    return is_float_array(*present) and len({x.dtype for x in present}) == 1


def mapped(layer: Callable[..., PyTree], times: int) -> Callable[..., PyTree]:
    """The layer under `jax.vmap`, as often as its input has batch axes."""
    return mapped(jax.vmap(layer), times - 1) if times else layer
