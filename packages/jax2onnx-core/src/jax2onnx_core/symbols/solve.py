"""Where the values of symbols come from: the shapes of the graph's inputs, solved by JAX itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from jax2onnx_graph import ir

from jax2onnx_core import _compat
from jax2onnx_core.frontend.inputs import Inputs
from jax2onnx_core.lowering.scope import Scope
from jax2onnx_core.plugins.errors import SymbolError
from jax2onnx_core.symbols.symbols import evaluate_dim

if TYPE_CHECKING:
    from jax2onnx_core.lowering.engine import Engine

__all__ = ["Solution", "symbol_reader"]


class Solution:
    """Each traced symbol as an expression over dimensions of the inputs.

    `synthetic` names those dimensions: name → (input index, axis).
    """

    def __init__(self, inputs: Inputs) -> None:
        symbolic = any(_compat.is_symbolic_dim(d) for a in inputs.avals for d in a.shape)
        self.expressions: Mapping[str, Any] = {}
        self.synthetic: dict[str, tuple[int, int]] = {}
        if symbolic:
            self._solve(inputs)

    def _solve(self, inputs: Inputs) -> None:
        try:
            self.expressions, synthetic = _compat.solve_dims(inputs.avals, inputs.tree)
        except RecursionError as error:
            texts = ", ".join(repr(c.text) for c in inputs.symbols.constraints)
            raise SymbolError(f"The constraints {texts} go in circles; they contradict each other.") from error
        except (ValueError, NotImplementedError, _compat.unknown_symbol_error) as error:
            shapes = ", ".join(
                f"{name}: ({', '.join(inputs.symbols.label(d) for d in aval.shape)})"
                for name, aval in zip(inputs.names, inputs.avals, strict=True)
                if any(_compat.is_symbolic_dim(d) for d in aval.shape)
            )
            raise SymbolError(
                f"The symbols cannot be determined from the inputs {shapes}. Add an input that has the "
                f"symbol alone as a dimension. ({str(error).splitlines()[0]})"
            ) from error
        self.synthetic = {name: (index, axis) for name, index, axis in synthetic}

    def values(self, shapes: Sequence[Sequence[int]]) -> dict[str, int]:
        """The (traced) symbols' values for concrete input shapes."""
        env = {name: int(shapes[index][axis]) for name, (index, axis) in self.synthetic.items()}
        return {symbol: evaluate_dim(expression, env) for symbol, expression in self.expressions.items()}


def symbol_reader(engine: Engine, scope: Scope, inputs: Inputs) -> Callable[[str], ir.Value]:
    """A function that emits the value of a symbol: `Shape(input, start, end)`, and arithmetic where needed."""
    solution = Solution(inputs)

    def read_axis(synthetic: str) -> ir.Value:
        index, axis = solution.synthetic[synthetic]
        return engine.emit_dims(scope, "Shape", scope.inputs[index], dims=(1,), start=axis, end=axis + 1)

    axes = engine.dim_lowerer(scope, read_axis)

    def read(symbol: str) -> ir.Value:
        return axes.vector(solution.expressions[symbol])

    return read
