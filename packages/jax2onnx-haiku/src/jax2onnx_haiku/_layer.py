"""A helper of the composites of layers: reading parameters as the layer does.

The composites intercept the bodies of methods (`__wrapped__`), below the wrapper by which Haiku enters the scope of a
module: parameters are had there by `hk.get_parameter`, with whatever getters and creators are in effect.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax2onnx_lax.dtypes import of_one_float_type

__all__ = ["parameters"]

#: The shape and the initializer of a parameter; None where the layer has none.
Parameter = tuple[Sequence[int], Callable[..., Any] | None] | None


def parameters(inputs: jax.Array, **declared: Parameter) -> list[jax.Array | None] | None:
    """The parameters of the module whose method runs.

    Args:
      inputs: the inputs of the module, floats.
      declared: the shape and the initializer of each parameter by its name; None for one that the module does not have.

    Returns:
      The arrays, or None for those that the module does not have. None in place of all while they are made by `init`, and
      unless they and the inputs are floats of one dtype.
    """
    import haiku as hk

    if hk.running_init():
        return None
    arrays = [_parameter(name, inputs, given) for name, given in declared.items()]
    return arrays if of_one_float_type(inputs, *arrays) else None


def _parameter(name: str, inputs: jax.Array, given: Parameter) -> jax.Array | None:
    import haiku as hk

    return None if given is None else hk.get_parameter(name, given[0], inputs.dtype, init=given[1])
