"""Modules for the cases, with variables that are not those of initialisation."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax
from flax import nnx
from jax2onnx_core import Construct, construct, with_dtype, with_rngs
from jax2onnx_lax.nn.flax_layers import trained_values

__all__ = ["OPTIONS", "library", "trained"]

#: Options of a layer in a case.
OPTIONS = {"param_dtype": with_dtype(), "rngs": with_rngs(0)}


def library(layer: str, example: Sequence[int], *args: object, **options: object) -> Construct:
    """A layer of NNX for a case, as `jax2onnx_lax.nn.flax_layers.Library`."""
    return construct(trained, vars(nnx)[layer], *args, **options, **OPTIONS)


def trained(layer: Callable[..., nnx.Module], *args: object, **options: object) -> nnx.Module:
    """A layer whose variables are as after training.

    Args:
      layer: its class.
      args: the arguments of the class.
      options: its keyword arguments.
    """
    made = layer(*args, **options)
    variables = nnx.to_flat_state(nnx.state(made, (nnx.Param, nnx.BatchStat)))
    keys = jax.random.split(jax.random.key(7), len(variables))
    new = [
        (path, old.replace(trained_values(key, str(path[-1]), old[...])))
        for key, (path, old) in zip(keys, variables, strict=True)
    ]
    nnx.update(made, nnx.from_flat_state(new))
    return made
