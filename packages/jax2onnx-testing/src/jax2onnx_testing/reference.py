"""What JAX computes: the reference of every test."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np
from jax2onnx_core.lowering.physical import physical_array

__all__ = ["Reference"]

# Compiling dominates the time of a test. Rounding stays where the dtypes of the program put it.
_COMPILER_OPTIONS = {"xla_backend_optimization_level": 0, "xla_allow_excess_precision": False}


class Reference:
    """A function evaluated by JAX: compiled, or step by step where it cannot be compiled.

    A model that changes its own state (a random stream, running statistics) cannot be compiled as a closure.
    """

    def __init__(self, fn: Callable[..., Any]) -> None:
        self._eager = fn
        self._compiled = jax.jit(lambda args, kwargs: fn(*args, **kwargs), compiler_options=_COMPILER_OPTIONS)

    def __call__(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[np.ndarray[Any, Any]]:
        """The flat results in their carried form (complex numbers as pairs, keys as words)."""
        # Each framework has errors of its own for a change of state while compiling; one that also
        # comes up step by step is raised there.
        try:
            result = self._compiled(args, kwargs)
        except Exception:  # noqa: BLE001
            result = self._eager(*args, **kwargs)
        return [physical_array(jax.numpy.asarray(leaf)) for leaf in jax.tree_util.tree_leaves(result)]
