"""`JaxprRewriter`: a jaxpr built anew with other variables, parameters and equations."""

from __future__ import annotations

from typing import Any

from jax2onnx_core import _compat, _compat_dims
from jax2onnx_core.jax_types import Atom, Aval, Equation, Jaxpr, Params, Var
from jax2onnx_core.jaxprs import is_jaxpr, is_literal, open_jaxpr

__all__ = ["JaxprRewriter"]


class JaxprRewriter:
    """Rebuilds the equations of a jaxpr in order; subclasses say what becomes of avals, parameters and equations."""

    def __init__(self) -> None:
        self._vars: dict[Any, Any] = {}
        self._jaxprs: dict[int, Jaxpr] = {}

    def aval(self, var: Var) -> Aval:
        """The aval of the variable that takes the place of `var`."""
        return var.aval

    def param(self, value: Any) -> Any:
        """The replacement of the value of a parameter, or of a value in one, that is neither a jaxpr nor a container."""
        return value

    def params(self, eqn: Equation) -> Params:
        """The parameters of an equation; called before its results are asked for."""
        return {name: self.value(value) for name, value in eqn.params.items()}

    def value(self, value: Any) -> Any:
        """The replacement of the value of a parameter, or of a value in one; one jaxpr stays one object."""
        if isinstance(value, (tuple, list)):
            values = [self.value(v) for v in value]
            if all(new is old for new, old in zip(values, value, strict=True)):
                return value
            is_named = type(value) not in (tuple, list)
            return type(value)(*values) if is_named else type(value)(values)
        if not is_jaxpr(value):
            return self.param(value)
        if id(value) not in self._jaxprs:
            self._jaxprs[id(value)] = self.rebuild(value)
        return self._jaxprs[id(value)]

    def rebuild(self, jaxpr: Jaxpr) -> Jaxpr:
        """The jaxpr with its variables replaced, of the same kind (open or closed)."""
        inner, consts = open_jaxpr(jaxpr)
        invars = [self.var(v) for v in (*inner.constvars, *inner.invars)]
        return _compat.rebuild_jaxpr(
            inner,
            invars=invars,
            eqns=[self.equation(eqn) for eqn in inner.eqns if not self.is_left_out(eqn)],
            outvars=[self.atom(v) for v in inner.outvars],
            consts=consts,
            closed_form=inner is not jaxpr or bool(consts),
        )

    def var(self, var: Var) -> Any:
        """The variable in the place of `var`."""
        if var not in self._vars:
            self._vars[var] = type(var)(self.aval(var))
        return self._vars[var]

    def atom(self, atom: Atom) -> Any:
        """The operand in the place of a variable or literal."""
        return atom if is_literal(atom) else self.var(atom)

    def is_left_out(self, eqn: Equation) -> bool:
        """Whether an equation goes; `replace` says then what its results are."""
        return False

    def replace(self, var: Var, atom: Atom) -> None:
        """Put what stands in the place of `atom` in the place of a variable, too."""
        self._vars[var] = self.atom(atom)

    def equation(self, eqn: Equation) -> Equation:
        """The equation with its variables and parameters replaced."""
        params = self.params(eqn)
        invars, outvars = [self.atom(v) for v in eqn.invars], [self.var(v) for v in eqn.outvars]
        return _compat_dims.with_known_dim(eqn.replace(invars=invars, outvars=outvars, params=dict(params)))
