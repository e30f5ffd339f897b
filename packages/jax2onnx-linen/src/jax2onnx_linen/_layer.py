"""Helpers of the composites of layers: reading parameters, and promoting dtypes as the layer does.

A composite claims the method that a class defines, below the wrapper that Linen puts around it
(`Dense.__call__.__wrapped__`): scopes, interceptors and captured intermediates stay with the wrapper, outside of the composite.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import jax
from jax.typing import DTypeLike
from jax2onnx_lax.dtypes import of_one_float_type

if TYPE_CHECKING:
    import flax.linen as nn
    from flax.linen.linear import PromoteDtypeFn

__all__ = ["Layer", "Parameters", "parameters", "plain", "promoted", "variable"]

Module = TypeVar("Module", bound="nn.Module")

#: Parameters of a layer, None for those that it does not use.
Parameters = tuple["jax.Array | None", ...]


class Layer(Protocol):
    """A layer with a dtype of computation and a function that converts arrays to it."""

    dtype: DTypeLike | None
    promote_dtype: PromoteDtypeFn


def variable(module: nn.Module, collection: str, name: str) -> jax.Array | None:
    """A variable of a module.

    Args:
      module: a module that is bound to its variables.
      collection: the collection, such as "params".
      name: the name of the variable in the module.

    Returns:
      The array, at each call the very same object; None if there is no such variable.
    """
    from flax.core import meta

    found: jax.Array | None = meta.unbox(module.get_variable(collection, name))
    return found


def plain(layer: Module, cls: type[Module], **changes: Any) -> Module:
    """An unbound layer with the fields of a layer.

    A composite that calls its layer once more calls this: a subclass whose `__call__` does more than that of the class would do it twice.

    Args:
      layer: an object of the class or of a subclass.
      cls: the class.
      changes: other values of fields.
    """
    names = [f.name for f in dataclasses.fields(cls) if f.init and f.name not in ("parent", "name")]
    fields = {name: getattr(layer, name) for name in names}
    return cls(**{**fields, **changes}, parent=None, name=None)


def parameters(module: nn.Module, **used: bool) -> Parameters | None:
    """The parameters of these names, with None for each that is not used.

    None in place of all if one is missing, as while the layer is initialised.
    """
    found = tuple(variable(module, "params", name) if use else None for name, use in used.items())
    return None if any(x is None for x, use in zip(found, used.values(), strict=True) if use) else found


def promoted(layer: Layer, *arrays: jax.Array | None) -> Parameters | None:
    """The arrays (or None) after the layer's own dtype promotion; None in place of all unless they have one float dtype then."""
    arrays = tuple(layer.promote_dtype(*arrays, dtype=layer.dtype))
    return arrays if of_one_float_type(*arrays) else None
