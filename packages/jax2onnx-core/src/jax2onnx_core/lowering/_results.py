"""The results of rules, checked against the types that they should have and labelled with their dimensions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from jax2onnx_graph.arrays import Dtype
from jax2onnx_graph.build.attributes import element_type
from jax2onnx_graph.build.builder import Value
from jax2onnx_graph.errors import RuleError
from jax2onnx_graph.facts.dims import Dims, SpecializedDim, are_plain

from jax2onnx_core.lowering._model_state import ModelState

__all__ = ["accept_results"]


def accept_results(
    state: ModelState, types: Sequence[tuple[Dtype, Dims]], operands: Sequence[Value], results: Sequence[object],
    agree: Callable[[Dims, Dims], bool],
) -> list[Value]:  # fmt: skip
    """The results with the dimensions of `types` as labels; `agree` says whether two shapes may be the same.

    Raises:
      RuleError: number, kind, element type, rank or sizes are not those of `types`, which are JAX's.
    """
    if len(results) != len(types):
        raise RuleError(f"The rule returned {len(results)} values for {len(types)} results.")
    return [
        _accept(state, dtype, dims, value, agree, operands) for (dtype, dims), value in zip(types, results, strict=True)
    ]


def _accept(
    state: ModelState, dtype: Dtype, dims: Dims, value: object, agree: Callable[[Dims, Dims], bool],
    operands: Sequence[Value],
) -> Value:  # fmt: skip
    if not isinstance(value, Value):
        raise RuleError(f"The rule returned {value!r}, not a value of the graph (an onnx_ir.Value).")
    if value.dtype != element_type(dtype):
        raise RuleError(f"The rule returned {value.dtype}, but JAX's result is {dtype}{list(dims)}.")
    known = state.dims(value)
    if known is None and value.producer() is None:
        raise RuleError(f"The rule returned {value.name!r}, which is no value of this graph: no node computes it.")
    if known is not None and not agree(known, dims):
        raise RuleError(f"The rule returned shape {list(known)}, but JAX's result has {list(dims)}.")
    if known is None or (_says_more(dims, known) and value.producer() is not None and value not in operands):
        state.set_dims(value, dims)
    return value


def _says_more(dims: Dims, known: Dims) -> bool:
    """Whether the equation's dimensions differ from those a rule inferred, or remember symbols where those do not."""
    return dims != known or (not are_plain(dims) and any(isinstance(d, SpecializedDim) for d in dims))
