"""Specialization with provenance: symbols fixed to numbers; every number remembers its symbol."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jax2onnx_graph.facts.dims import SpecializedDim

from jax2onnx_core import _compat, _compat_dims
from jax2onnx_core.jax_types import Aval, Equation, Jaxpr, TraceableAval, Var
from jax2onnx_core.jaxprs import Dim, StaticParams, is_static
from jax2onnx_core.plugins.errors import OptionError, SymbolError
from jax2onnx_core.symbols._jaxpr_rewriter import JaxprRewriter
from jax2onnx_core.symbols.symbols import Symbols

__all__ = ["fixed_dim", "specialization", "specialized_aval", "specialized_equation", "specialized_jaxpr"]


def specialized_jaxpr(jaxpr: Jaxpr, symbols: Symbols, values: Mapping[str, int]) -> Jaxpr:
    """The jaxpr with the user's symbols `values` replaced by numbers, nested jaxprs and parameters included."""
    return _Substitution(symbols, values).rebuild(jaxpr)


def specialized_equation(eqn: Equation, symbols: Symbols, values: Mapping[str, int]) -> Equation:
    """The equation with the user's symbols `values` replaced by numbers in its parameters."""
    return _compat_dims.with_known_dim(eqn.replace(params=dict(_Substitution(symbols, values).params(eqn))))


def specialized_aval(aval: TraceableAval, symbols: Symbols, values: Mapping[str, int]) -> TraceableAval:
    """The aval with the user's symbols `values` replaced by numbers."""
    return _Substitution(symbols, values).struct(aval)


def fixed_dim(dim: Dim, symbols: Symbols, values: Mapping[str, int]) -> Dim:
    """The dimension with the user's symbols `values` replaced by numbers, which remember it."""
    return _Substitution(symbols, values).dim(dim)


def specialization(avals: Sequence[Aval], symbols: Symbols, values: object) -> dict[str, int]:
    """The numbers of `values` (symbol → number) that inputs of these avals are to be specialized with.

    Raises SymbolError for symbols that no input has, and values that are no size or break a constraint.
    """
    if not isinstance(values, Mapping):
        raise OptionError(f"specialize needs a mapping from symbols to numbers such as {{'T': 1}}, not {values!r}.")
    known = symbols.names([d for aval in avals for d in aval.shape])
    for name in values:
        if name not in known:
            raise SymbolError(
                f"Cannot specialize {name!r}: no input has that symbol. There are: {', '.join(known) or 'none'}."
            )
    symbols.check_constraints(values)
    return {name: int(value) for name, value in values.items()}


class _Substitution(JaxprRewriter):
    """Symbols → numbers in avals, parameters and nested jaxprs."""

    def __init__(self, symbols: Symbols, values: Mapping[str, int]) -> None:
        super().__init__()
        self._symbols = symbols
        self._values = symbols.traced_values(values)

    def dim(self, dim: Dim) -> Dim:
        """A dimension with the symbols replaced."""
        if not _compat_dims.is_symbolic_dim(dim):
            return dim
        found = _compat_dims.symbols_of(dim)
        if not found & self._values.keys():
            return dim
        env = {name: self._values.get(name, _compat_dims.symbol(name, dim)) for name in found}
        fixed = _compat_dims.substitute(dim, env)
        return SpecializedDim(int(fixed), self._symbols.label(dim)) if is_static(fixed) else fixed

    def struct(self, aval: TraceableAval) -> TraceableAval:
        """An aval with the symbols replaced."""
        return _compat.with_exact_shape(aval, tuple(self.dim(d) for d in aval.shape))

    def aval(self, var: Var) -> Aval:
        return self.struct(var.aval)

    def param(self, value: Any) -> Any:
        if _compat_dims.is_symbolic_dim(value):
            return self.dim(value)
        if isinstance(value, StaticParams):
            return StaticParams({key: self.value(v) for key, v in value.values.items()})
        if isinstance(value, _compat.ShapedArray):
            return self.struct(value)
        return value
