"""`on_one_device`: a jaxpr that was traced for several devices, with the types of whole arrays."""

from __future__ import annotations

from jax2onnx_core import _compat
from jax2onnx_core.jax_types import Aval, Equation, Jaxpr, Var
from jax2onnx_core.jaxprs import open_jaxpr
from jax2onnx_core.symbols._jaxpr_rewriter import JaxprRewriter

__all__ = ["on_one_device"]


def on_one_device(jaxpr: Jaxpr) -> Jaxpr:
    """The jaxpr without shardings in its types and parameters, nested jaxprs included; itself where there are none."""
    return _OneDevice().rebuild(jaxpr) if _knows_a_mesh(jaxpr, set()) else jaxpr


def _knows_a_mesh(jaxpr: Jaxpr, seen: set[int]) -> bool:
    """Whether an equation knows of a mesh; `seen` are the identities of jaxprs that were asked, which many calls may share."""
    if id(jaxpr) in seen:
        return False
    seen.add(id(jaxpr))
    inner, _ = open_jaxpr(jaxpr)
    return any(map(_compat.has_mesh, (*inner.constvars, *inner.invars))) or any(
        _compat.on_a_mesh(eqn) or any(_knows_a_mesh(nested, seen) for nested in _compat.inner_jaxprs(eqn))
        for eqn in inner.eqns
    )


class _OneDevice(JaxprRewriter):
    """Rebuilds a jaxpr with the types of whole arrays."""

    def aval(self, var: Var) -> Aval:
        return _compat.without_sharding(var.aval)

    def is_left_out(self, eqn: Equation) -> bool:
        if not _compat.is_type_cast(eqn):
            return False
        self.replace(eqn.outvars[0], eqn.invars[0])
        return True

    def equation(self, eqn: Equation) -> Equation:
        return _compat.in_no_mesh(super().equation(eqn))

    def param(self, value: object) -> object:
        if isinstance(value, (tuple, list)) and type(value) in (tuple, list):  # no named tuple
            return type(value)(map(self.value, value))
        return value
