"""Specialisation with provenance: symbols fixed to numbers after tracing; every number remembers its symbol."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from jax2onnx_core import _compat
from jax2onnx_core.frontend.composite import Static
from jax2onnx_core.frontend.inputs import Inputs
from jax2onnx_core.frontend.tracing import Traced
from jax2onnx_core.plugins.errors import SymbolError
from jax2onnx_core.symbols.symbols import SpecializedDim, Symbols

__all__ = ["check_specialisation", "fixed_dim", "specialise"]


def specialise(traced: Traced, inputs: Inputs, values: Mapping[str, int]) -> tuple[Traced, Inputs]:
    """The traced function and its inputs with the user's symbols `values` replaced by numbers.

    Raises SymbolError for unknown symbols and values that break a constraint.
    """
    check_specialisation(inputs, values)
    substitution = _Substitution(inputs.symbols, values)
    avals = [substitution.struct(aval) for aval in inputs.avals]
    jaxpr = substitution.jaxpr(traced.jaxpr)
    return (
        dataclasses.replace(
            traced, jaxpr=jaxpr, out_avals=[v.aval for v in _compat.jaxpr_of(jaxpr).outvars]
        ),
        dataclasses.replace(inputs, avals=avals),
    )


def check_specialisation(inputs: Inputs, values: Mapping[str, int]) -> None:
    known = inputs.symbols.names([d for aval in inputs.avals for d in aval.shape])
    for name in values:
        if name not in known:
            raise SymbolError(
                f"Cannot specialise {name!r}: no input has that symbol. There are: {', '.join(known) or 'none'}."
            )
    inputs.symbols.check_constraints(values)


def fixed_dim(dim: Any, symbols: Symbols, values: Mapping[str, int]) -> Any:
    """The dimension with the user's symbols `values` replaced by numbers, which remember it."""
    return _Substitution(symbols, values).dim(dim)


class _Substitution:
    """Symbols → numbers in avals, parameters and nested jaxprs."""

    def __init__(self, symbols: Symbols, values: Mapping[str, int]) -> None:
        self.symbols = symbols
        self.values = symbols.traced_values(values)
        self._vars: dict[Any, Any] = {}
        self._jaxprs: dict[int, Any] = {}

    def dim(self, dim: Any) -> Any:
        if not _compat.is_symbolic_dim(dim):
            return dim
        found = _compat.symbols_of(dim)
        if not found & self.values.keys():
            return dim
        env = {name: self.values.get(name, _compat.symbol(name, dim)) for name in found}
        fixed = _compat.substitute(dim, env)
        if _compat.is_symbolic_dim(fixed):
            return fixed
        return SpecializedDim(int(fixed), self.symbols.label(dim))

    def struct(self, aval: Any) -> Any:
        return _compat.with_exact_shape(aval, tuple(self.dim(d) for d in aval.shape))

    def jaxpr(self, jaxpr: Any) -> Any:
        if id(jaxpr) not in self._jaxprs:
            inner, consts = _compat.open_jaxpr(jaxpr)
            fixed = _compat.rebuild_jaxpr(
                inner,
                invars=[self._var(v) for v in (*inner.constvars, *inner.invars)],
                outvars=[self._atom(v) for v in inner.outvars],
                eqns=[self._equation(eqn) for eqn in inner.eqns],
                consts=consts,
                closed_form=inner is not jaxpr or bool(consts),
            )
            self._jaxprs[id(jaxpr)] = fixed
        return self._jaxprs[id(jaxpr)]

    def _var(self, var: Any) -> Any:
        if var not in self._vars:
            self._vars[var] = type(var)(self.struct(var.aval))
        return self._vars[var]

    def _atom(self, atom: Any) -> Any:
        return atom if isinstance(atom, _compat.Literal) else self._var(atom)

    def _equation(self, eqn: Any) -> Any:
        return eqn.replace(
            invars=[self._atom(v) for v in eqn.invars],
            outvars=[self._var(v) for v in eqn.outvars],
            params={key: self._param(value) for key, value in eqn.params.items()},
        )

    def _param(self, value: Any) -> Any:
        if _compat.is_symbolic_dim(value):
            return self.dim(value)
        if _compat.is_jaxpr(value):
            return self.jaxpr(value)
        if isinstance(value, Static):
            return Static({key: self._param(v) for key, v in value.values.items()})
        if isinstance(value, _compat.ShapedArray):
            return self.struct(value)
        if isinstance(value, tuple) and type(value) is not tuple:  # a named tuple
            return type(value)(*(self._param(v) for v in value))
        if isinstance(value, (tuple, list)):
            return type(value)(self._param(v) for v in value)
        return value
