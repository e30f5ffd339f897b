"""Tracing: the adapted callable in the activation window, on abstract inputs."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax

from jax2onnx_core import _compat
from jax2onnx_core.activation import activation_window, patched
from jax2onnx_core.adapt import AdaptedCallable
from jax2onnx_core.inputs import Inputs, path_name
from jax2onnx_core.registry import Registry

__all__ = ["Traced", "trace"]

_WAYS_OUT = (
    "Here the program needs the number behind a symbolic dimension. Either give a constraint that decides the question "
    '(to_onnx(..., constraints=("T >= 2",))), or export with a number in place of the name in the input shapes.'
)


@dataclasses.dataclass(frozen=True)
class Traced:
    """A traced function: its closed jaxpr, and the pytree, names and avals of its results."""

    jaxpr: Any
    out_tree: Any
    out_names: list[str]
    out_avals: list[Any]
    weight_names: Mapping[int, str]


def trace(adapted: AdaptedCallable, inputs: Inputs, registry: Registry) -> Traced:
    """Trace the callable; an error in the user's code passes through with the user's traceback."""

    def call(*leaves: Any) -> Any:
        args, kwargs = jax.tree_util.tree_unflatten(inputs.tree, leaves)
        return patched(adapted.make())(*args, **kwargs)

    with activation_window(registry.composites, registry):
        try:
            jaxpr, shapes = jax.make_jaxpr(call, return_shape=True)(*inputs.avals)
        except _compat.inconclusive_dimension_error as error:
            error.add_note(_WAYS_OUT)
            raise
    leaves, out_tree = jax.tree_util.tree_flatten_with_path(shapes)
    names = [_output_name(path) for path, _ in leaves]
    avals = [v.aval for v in _compat.jaxpr_of(jaxpr).outvars]
    return Traced(_compat.without_dead_equations(jaxpr), out_tree, names, avals, adapted.names)


def _output_name(path: tuple[Any, ...]) -> str:
    if not path:
        return "output"
    name = path_name(path)
    return f"output_{name}" if name[0].isdigit() else name
