"""Tracing: the adapted callable in the activation window, on abstract inputs."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax

from jax2onnx_core import _compat
from jax2onnx_core.frontend.activation import activation_window, patched
from jax2onnx_core.frontend.adapters import AdaptedCallable
from jax2onnx_core.frontend.inputs import Inputs, path_name
from jax2onnx_core.plugins.registry import Registry
from jax2onnx_core.symbols.inconclusive_dims import is_about_a_symbol, undecided

__all__ = ["Traced", "trace"]


@dataclasses.dataclass(frozen=True)
class Traced:
    """A traced function: its closed jaxpr, and the pytree, names and avals of its results."""

    jaxpr: Any
    out_tree: Any
    out_names: list[str]
    out_avals: list[Any]
    weight_names: Mapping[int, str]


def trace(adapted: AdaptedCallable, inputs: Inputs, registry: Registry) -> Traced:
    """Trace the callable; an error in the user's code passes through with the user's traceback.

    Raises UndecidedDimensionError where the code asks for the number behind a symbolic dimension.
    """

    def call(*leaves: Any) -> Any:
        args, kwargs = jax.tree_util.tree_unflatten(inputs.tree, leaves)
        return patched(adapted.make())(*args, **kwargs)

    with activation_window(registry.composites, registry):
        try:
            jaxpr, shapes = jax.make_jaxpr(call, return_shape=True)(*inputs.avals)
        except (_compat.inconclusive_dimension_error, TypeError) as error:
            if not is_about_a_symbol(error):
                raise
            raise undecided(error, inputs.symbols) from error
    leaves, out_tree = jax.tree_util.tree_flatten_with_path(shapes)
    names = [_output_name(path) for path, _ in leaves]
    avals = [v.aval for v in _compat.jaxpr_of(jaxpr).outvars]
    return Traced(_compat.without_dead_equations(jaxpr), out_tree, names, avals, adapted.names)


def _output_name(path: tuple[Any, ...]) -> str:
    if not path:
        return "output"
    name = path_name(path)
    return f"output_{name}" if name[0].isdigit() else name
