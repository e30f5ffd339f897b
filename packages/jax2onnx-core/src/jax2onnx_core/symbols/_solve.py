"""Values of symbols from the shapes of the graph's inputs, solved by JAX itself."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import jax

from jax2onnx_core import _compat_dims
from jax2onnx_core.jax_types import Aval
from jax2onnx_core.jaxprs import Dim, is_symbolic_dim
from jax2onnx_core.plugins.errors import SymbolError
from jax2onnx_core.symbols.symbols import Symbols, evaluate_dim

__all__ = ["DimSolution"]

_HYPHENATED = re.compile(r"[A-Za-z_]\w*(?:-[A-Za-z_]\w*)+")


class DimSolution:
    """Each traced symbol as an expression over dimensions of the inputs.

    Args:
      names, avals: those of the flat inputs.
      symbols: the symbols of the export.

    Attributes:
      expressions: symbol → expression over variables, each of which is one dimension of an input.
      places: variable → (input index, axis).

    Raises:
      SymbolError: a symbol does not follow from the shapes of the inputs.
    """

    def __init__(self, names: Sequence[str], avals: Sequence[Aval], symbols: Symbols) -> None:
        self.expressions: Mapping[str, Dim] = {}
        self.places: dict[str, tuple[int, int]] = {}
        symbolic = {
            name: aval.shape for name, aval in zip(names, avals, strict=True) if any(map(is_symbolic_dim, aval.shape))
        }
        if not symbolic:
            return
        known = symbols.names([dim for shape in symbolic.values() for dim in shape])
        # JAX looks for all symbols of the constraints, also for those that were fixed to numbers.
        fixed = set(symbols.names(side for c in symbols.constraints for side in (c.left, c.right)))
        fixed = fixed.union(symbols.fixed) - set(known)
        given = [*avals, *(jax.ShapeDtypeStruct((symbols.parse(name),), bool) for name in sorted(fixed))]
        try:
            solved, variables = _compat_dims.solve_dims(given)
        except RecursionError as error:
            texts = ", ".join(repr(c.text) for c in symbols.constraints)
            raise SymbolError(f"The constraints {texts} go in circles; they contradict each other.") from error
        except (ValueError, NotImplementedError, _compat_dims.unknown_symbol_error) as error:
            shapes = ", ".join(f"{name}: ({', '.join(map(symbols.label, shape))})" for name, shape in symbolic.items())
            hyphens = sorted(set(_HYPHENATED.findall(shapes)))
            advice = "".join(
                f" If {name!r} is one name, write {name.replace('-', '_')!r}: '-' subtracts." for name in hyphens
            )
            raise SymbolError(
                f"The symbols cannot be determined from the inputs {shapes}. Add an input that has the "
                f"symbol alone as a dimension.{advice} ({str(error).splitlines()[0]})"
            ) from error
        self.expressions = {name: solved[name] for name in symbols.traced_values(dict.fromkeys(known, 0))}
        self.places = {name: (index, axis) for name, index, axis in variables if index < len(avals)}

    def values(self, shapes: Sequence[Sequence[int]]) -> dict[str, int]:
        """The (traced) symbols' values for concrete input shapes."""
        env = {name: int(shapes[index][axis]) for name, (index, axis) in self.places.items()}
        return {symbol: evaluate_dim(expression, env) for symbol, expression in self.expressions.items()}
