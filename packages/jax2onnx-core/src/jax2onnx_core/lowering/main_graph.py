"""The scope of the main graph: its inputs, and how the values of symbols follow from their shapes."""

from __future__ import annotations

from jax2onnx_graph.build.builder import Value
from jax2onnx_graph.build.model_state import ModelState
from jax2onnx_graph.build.scope import Scope

from jax2onnx_core.frontend.inputs import Inputs
from jax2onnx_core.lowering.physical import physical_type

__all__ = ["main_scope"]


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
