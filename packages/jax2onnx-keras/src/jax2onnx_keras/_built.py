"""Layers with weights for the cases."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jax2onnx_core import construct, with_dtype

if TYPE_CHECKING:
    import keras

__all__ = ["built"]


def built(layer: Callable[..., keras.Layer], shape: Sequence[int | None], *args: Any, **options: Any) -> Any:
    """A layer for a case, with random weights and the dtype of the case's variant.

    Args:
      layer: the class of the layer.
      shape: the shape of its input, with the batch axis.
      args: its other positional arguments.
      options: its keyword arguments, without `dtype`.

    Returns:
      A placeholder, as `construct` makes it.
    """
    return construct(_built, layer, shape, args, options, with_dtype())


def _built(
    layer: Callable[..., keras.Layer],
    shape: Sequence[int | None],
    args: Sequence[Any],
    options: dict[str, Any],
    dtype: Any,
) -> keras.Layer:
    made = layer(*args, dtype=np.dtype(dtype).name, **options)
    if not made.built:
        made.build(tuple(shape))
    rng = np.random.default_rng(7)
    for weight in made.weights:
        values = rng.uniform(-1, 1, weight.shape)
        weight.assign(np.abs(values) + 0.1 if "variance" in weight.name else values)
    return made
