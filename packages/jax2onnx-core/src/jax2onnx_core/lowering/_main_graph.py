"""The scope of the main graph: its inputs, how the values of symbols follow from their shapes, and layouts at its boundary."""

from __future__ import annotations

from collections.abc import Sequence

from jax2onnx_graph.build.builder import Value
from jax2onnx_graph.build.names import Origin

from jax2onnx_core.frontend.inputs import Inputs
from jax2onnx_core.frontend.layouts import Layouts
from jax2onnx_core.lowering._model_state import ModelState
from jax2onnx_core.lowering._scope import Scope, ScopeBuilder
from jax2onnx_core.lowering.physical import physical_type

__all__ = ["inputs_of_function", "main_scope", "outputs_of_model"]

_LAYOUT = Origin(operation="layout")


def main_scope(state: ModelState, inputs: Inputs) -> Scope:
    """A scope with one input for each of `inputs`.

    The value of a symbol is `Shape(input, start, end)`, with arithmetic where no input has the symbol alone.
    """
    scope, layouts = Scope(state, "main"), inputs.layouts
    types = [physical_type(aval) for aval in inputs.avals]
    scope.inputs = [
        state.new_value(name, dtype, layouts.arranged(name, dims))
        for name, (dtype, dims) in zip(inputs.names, types, strict=True)
    ]
    builder, solution = scope.prologue_builder(), inputs.solution

    def axis_size(variable: str) -> Value:
        index, axis = solution.places[variable]
        axis = layouts.axis(inputs.names[index], axis)
        return builder.op.Shape(scope.inputs[index], start=axis, end=axis + 1)

    sizes = scope.dim_lowerer(axis_size)
    scope.define_symbols(lambda symbol: sizes.vector(solution.expressions[symbol]))
    return scope


def inputs_of_function(scope: Scope, layouts: Layouts, names: Sequence[str]) -> list[Value]:
    """The inputs of a scope, which have these names, in the layouts in which the function takes them."""
    perms = {name: layout.reversed().perm for name, layout in layouts.by_name.items()}
    return [_transposed(scope, value, perms.get(name)) for name, value in zip(names, scope.inputs, strict=True)]


def outputs_of_model(scope: Scope, layouts: Layouts, names: Sequence[str], results: Sequence[Value]) -> list[Value]:
    """The results of the function, which have these names, in the layouts in which the model gives them."""
    perms = {name: layout.perm for name, layout in layouts.by_name.items()}
    return [_transposed(scope, value, perms.get(name)) for name, value in zip(names, results, strict=True)]


def _transposed(scope: Scope, value: Value, perm: Sequence[int] | None) -> Value:
    builder = ScopeBuilder(scope, _LAYOUT)
    components = range(len(perm), len(builder.known_dims(value))) if perm else ()
    return builder.transpose(value, (*perm, *components)) if perm else value
