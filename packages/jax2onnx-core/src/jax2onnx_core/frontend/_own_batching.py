"""`without_own_batching`: a jaxpr whose functions with a `vmap` of their own are calls like others."""

from __future__ import annotations

from jax2onnx_core import _compat
from jax2onnx_core.jax_types import Equation, Jaxpr
from jax2onnx_core.jaxprs import every_jaxpr, open_jaxpr
from jax2onnx_core.symbols._jaxpr_rewriter import JaxprRewriter

__all__ = ["without_own_batching"]


def without_own_batching(jaxpr: Jaxpr) -> Jaxpr:
    """The jaxpr with plain calls of the functions of `jax.custom_batching`, nested jaxprs included; itself where there are none.

    All that the user transforms is transformed when a trace is over. What computes the steps of a loop at once, or those of all devices,
    uses `jax.vmap` as well, and means the function as it stands: what the user gave for `vmap` may compute something else.
    """
    has_own = any(_compat.is_batched_by_user(eqn) for one in every_jaxpr(jaxpr) for eqn in open_jaxpr(one)[0].eqns)
    return _PlainCalls().rebuild(jaxpr) if has_own else jaxpr


class _PlainCalls(JaxprRewriter):
    """Rebuilds a jaxpr with plain calls."""

    def equation(self, eqn: Equation) -> Equation:
        rebuilt = super().equation(eqn)
        return _compat.plain_call_of(rebuilt) if _compat.is_batched_by_user(eqn) else rebuilt
