"""`on_one_device`: a jaxpr that was traced for several devices, with the types of whole arrays."""

from __future__ import annotations

from jax2onnx_core import _compat_meshes
from jax2onnx_core.jax_types import Aval, Equation, Jaxpr, Var
from jax2onnx_core.jaxprs import every_jaxpr, open_jaxpr
from jax2onnx_core.symbols._jaxpr_rewriter import JaxprRewriter

__all__ = ["on_one_device"]


def on_one_device(jaxpr: Jaxpr) -> Jaxpr:
    """The jaxpr without shardings in its types and parameters, nested jaxprs included; itself where there are none."""
    return _OneDevice().rebuild(jaxpr) if any(map(_knows_a_mesh, every_jaxpr(jaxpr))) else jaxpr


def _knows_a_mesh(jaxpr: Jaxpr) -> bool:
    inner, _ = open_jaxpr(jaxpr)
    return any(map(_compat_meshes.has_mesh, (*inner.constvars, *inner.invars))) or any(
        map(_compat_meshes.on_a_mesh, inner.eqns)
    )


class _OneDevice(JaxprRewriter):
    """Rebuilds a jaxpr with the types of whole arrays."""

    def aval(self, var: Var) -> Aval:
        return _compat_meshes.without_sharding(var.aval)

    def is_left_out(self, eqn: Equation) -> bool:
        if not _compat_meshes.is_type_cast(eqn):
            return False
        self.replace(eqn.outvars[0], eqn.invars[0])
        return True

    def equation(self, eqn: Equation) -> Equation:
        return _compat_meshes.in_no_mesh(super().equation(eqn))
