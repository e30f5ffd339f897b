"""Bound modules for cases and tests, with variables that are not those of initialisation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike
from jax2onnx_core import Construct, construct, with_dtype
from jax2onnx_lax.nn.flax_layers import trained_values

__all__ = ["library", "trained", "trained_variables"]

#: Layers that have other names in NNX.
_RENAMED = {"Linear": "Dense", "LinearGeneral": "DenseGeneral"}


def library(layer: str, example: Sequence[int], *args: object, **options: object) -> Construct:
    """A layer of Linen for a case, as `jax2onnx_lax.nn.flax_layers.Library`; all but tables find out how many features they get."""
    made = vars(nn)[_RENAMED.get(layer, layer)]
    if layer == "Embed":
        return construct(trained, made, example, *args, dtype=with_dtype(), of=np.int32, **options)
    return construct(trained, made, example, *args[1:], dtype=with_dtype(), **options)


def trained(
    layer: Callable[..., nn.Module], shape: Sequence[int], /, *args: Any, dtype: DTypeLike, of: DTypeLike | None = None,
    **options: Any,
) -> nn.Module:  # fmt: skip
    """A module bound to variables as they are after training.

    Args:
      layer: the class of the module, or a function that makes it.
      shape: the shape of its input.
      args: the arguments of `layer`.
      dtype: the dtype of the variables.
      of: the dtype of the input where it is another.
      options: the keyword arguments of `layer`.
    """
    module = layer(*args, **options)
    return module.bind(trained_variables(module, jnp.zeros(shape, of or dtype), dtype=dtype))


def trained_variables(module: nn.Module, *inputs: Any, dtype: DTypeLike = jnp.float32) -> dict[str, Any]:
    """Variables as they are after training: means and biases are not 0, scales not 1, variances positive.

    Args:
      module: the module.
      inputs: the inputs with which it is initialised.
      dtype: the dtype of the variables.
    """
    variables = jax.eval_shape(lambda: module.init(jax.random.key(0), *inputs))
    paths, tree = jax.tree_util.tree_flatten_with_path(variables)
    keys = jax.random.split(jax.random.key(7), len(paths))
    names = [jax.tree_util.keystr(path[-1:], simple=True) for path, _ in paths]
    values = [
        trained_values(key, name, jax.ShapeDtypeStruct(like.shape, dtype))
        for key, name, (_, like) in zip(keys, names, paths, strict=True)
    ]
    return jax.tree.unflatten(tree, values)
