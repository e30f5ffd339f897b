"""What the composites of all layers share: reading parameters the way the layer itself does."""

from __future__ import annotations

__all__ = ["axes_from_end", "parameter", "promoted"]

from collections.abc import Sequence
from typing import Any

from jax2onnx_lax.nn.activations import is_float


def parameter(variable: Any) -> Any:
    """The array of an `nnx.Variable`, None where the layer has none. Always the very same object."""
    return None if variable is None else variable[...]


def promoted(layer: Any, *arrays: Any) -> tuple[Any, ...] | None:
    """The arrays (or None) after the layer's own dtype promotion; None unless all became one float type."""
    arrays = layer.promote_dtype(arrays, dtype=layer.dtype)
    present = [x for x in arrays if x is not None]
    return arrays if is_float(*present) and len({x.dtype for x in present}) == 1 else None


def axes_from_end(axes: Any, rank: int) -> tuple[int, ...]:
    """Sorted axes, counted from the end."""
    axes = axes if isinstance(axes, Sequence) else (axes,)
    return tuple(sorted(a if a < 0 else a - rank for a in axes))
