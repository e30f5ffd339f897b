"""Bound modules for cases and tests, with variables that are not those of initialisation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

if TYPE_CHECKING:
    import flax.linen as nn

__all__ = ["trained", "trained_variables"]


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

    def values(key: jax.Array, path: Sequence[Any], like: jax.ShapeDtypeStruct) -> jax.Array:
        fan_in = max(1, like.size // like.shape[-1]) if len(like.shape) > 1 else 1
        low = 0.5 if jax.tree_util.keystr(path[-1:], simple=True) in ("var", "scale") else -1
        return jax.random.uniform(key, like.shape, dtype, low, 1.5) / fan_in**0.5

    return jax.tree.unflatten(tree, [values(key, *leaf) for key, leaf in zip(keys, paths, strict=True)])
