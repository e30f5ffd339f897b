"""Functions of Haiku with parameters, for the cases."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import haiku as hk
import jax
import jax.numpy as jnp
from jax.typing import DTypeLike
from jax2onnx_core import Case, construct, with_dtype
from jax2onnx_core.jax_types import PyTree

__all__ = ["layer_case"]

_SIZES = {"B": 2, "T": 5, "S": 4, "H": 6, "W": 7}


def layer_case(name: str, function: Callable[..., PyTree], inputs: Sequence[Any], **options: Any) -> Case:
    """The case of a function that calls modules, with parameters and statistics that are not those of initialisation.

    Args:
      name: the name of the case.
      function: the function, which `hk.transform` takes.
      inputs: its inputs, shapes or (shape, dtype).
      options: other fields of the case.
    """
    return Case(name, construct(_bound, function, inputs, dtype=with_dtype()), inputs, **options)


def _bound(function: Callable[..., PyTree], inputs: Sequence[Any], *, dtype: DTypeLike) -> Callable[..., PyTree]:
    transformed = hk.transform_with_state(function)

    def initialised() -> PyTree:
        examples = [_example(spec, dtype) for spec in inputs]
        return jax.tree.map(_changed, transformed.init(jax.random.key(0), *examples))

    params, state = jax.jit(initialised)()
    if state:
        return lambda *args: transformed.apply(params, state, None, *args)[0]
    plain = hk.without_apply_rng(hk.transform(function))
    return functools.partial(plain.apply, params)  # type: ignore[attr-defined]  # Haiku annotates it by a name of its own file


def _example(spec: Any, dtype: DTypeLike) -> jax.Array:
    shape, kind = spec if isinstance(spec[0], tuple) else (spec, dtype)
    return jnp.ones([_SIZES.get(d, d) for d in shape], kind)


def _changed(array: jax.Array) -> jax.Array:
    """The array plus positive numbers that are all different."""
    return array + (0.5 + 0.4 * jnp.sin(jnp.arange(array.size) * 1.3)).reshape(array.shape).astype(array.dtype)
