"""What a rule returns is checked against the equation, and labelled with JAX's dimensions."""

from __future__ import annotations

from collections.abc import Sequence

from jax2onnx_graph.build.attributes import element_type
from jax2onnx_graph.build.builder import Value
from jax2onnx_graph.build.model_state import ModelState
from jax2onnx_graph.facts.dims import SpecializedDim

from jax2onnx_core.jaxprs import Aval, Dims, is_static
from jax2onnx_core.lowering.operation import Operation
from jax2onnx_core.lowering.physical import physical_type
from jax2onnx_core.plugins.errors import RuleError
from jax2onnx_core.symbols.symbols import Symbols, evaluate_dim

__all__ = ["accept_results"]


def accept_results(
    state: ModelState, symbols: Symbols, operation: Operation, operands: Sequence[Value], results: Sequence[object]
) -> list[Value]:
    """The results with JAX's dimensions as labels.

    Raises:
      RuleError: number, kind, element type, rank or sizes are not those of the equation.
    """
    if len(results) != len(operation.avals_out):
        raise RuleError(f"The rule returned {len(results)} values for {len(operation.avals_out)} results.")
    return [
        _accept(state, symbols, aval, value, any(value is operand for operand in operands))
        for aval, value in zip(operation.avals_out, results, strict=True)
    ]


def _accept(state: ModelState, symbols: Symbols, aval: Aval, value: object, is_operand: bool) -> Value:
    dtype, dims = physical_type(aval)
    if not isinstance(value, Value):
        raise RuleError(f"The rule returned {value!r}, not a value of the graph (an onnx_ir.Value).")
    if value.dtype != element_type(dtype):
        raise RuleError(f"The rule returned {value.dtype}, but JAX's result is {dtype}{list(dims)}.")
    known = state.dims(value)
    if known is None and value.producer() is None:
        raise RuleError(f"The rule returned {value.name!r}, which is no value of this graph: no node computes it.")
    if known is not None and not _agree(known, dims, symbols):
        raise RuleError(f"The rule returned shape {list(known)}, but JAX's result has {list(dims)}.")
    if known is None or (_says_more(dims, known) and value.producer() is not None and not is_operand):
        state.set_dims(value, dims)
    return value


def _agree(known: Dims, dims: Dims, symbols: Symbols) -> bool:
    """Whether the ranks are equal, and the sizes: those with symbols at sizes that tell most expressions apart."""
    if len(known) != len(dims) or known == dims:
        return known == dims
    values = {name: 101 + 2 * i for i, name in enumerate(symbols.names([*known, *dims]))}
    if not symbols.allow(values):
        return all(a == b for a, b in zip(known, dims, strict=True) if is_static(a) and is_static(b))
    traced = symbols.traced_values(values)
    return all(evaluate_dim(a, traced) == evaluate_dim(b, traced) for a, b in zip(known, dims, strict=True))


def _says_more(dims: Dims, known: Dims) -> bool:
    """Whether the equation's dimensions differ from those a rule inferred, or remember symbols where those do not."""
    return dims != known or any(isinstance(d, SpecializedDim) for d in dims)
