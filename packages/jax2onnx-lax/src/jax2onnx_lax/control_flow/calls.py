"""Calls: what wraps a jaxpr without changing its values is inlined."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax2onnx_core import Rules

from jax2onnx_lax._compat import run_state

__all__ = ["rules"]

rules = Rules()


@rules.lower("jit", "remat2", packed=True)
def call_with_jaxpr(ctx: Any, *operands: Any, jaxpr: Any, **_: Any) -> Any:
    return ctx.inline(jaxpr, *operands)


@rules.lower("closed_call", "custom_jvp_call", "custom_vjp_call", "eval_jaxpr", "xla_metadata_call", packed=True)
def call_with_call_jaxpr(ctx: Any, *operands: Any, call_jaxpr: Any = None, jaxpr: Any = None, **_: Any) -> Any:
    return ctx.inline(jaxpr if call_jaxpr is None else call_jaxpr, *operands)


@rules.lower("custom_vmap_call", "custom_partitioning", packed=True)
def call_with_call(ctx: Any, *operands: Any, call: Any, **_: Any) -> Any:
    return ctx.inline(call, *operands)


@rules.lower("linear_call", packed=True)
def linear_call(ctx: Any, *operands: Any, callee: Any, **_: Any) -> Any:
    return ctx.inline(callee, *operands)


@rules.lower("remat_opt", packed=True)
def remat_opt(ctx: Any, *operands: Any, fwd_jaxpr: Any, **_: Any) -> Any:
    return ctx.inline(fwd_jaxpr, *operands)


@rules.lower("composite", packed=True)
def composite(
    ctx: Any, *operands: Any, name: str, attributes: Any, jaxpr: Any = None, call_jaxpr: Any = None, **_: Any
) -> Any:
    """`jax.lax.composite`: the rules declared for its name, with its attributes as parameters, else what it is."""
    params = {key: jax.tree_util.tree_unflatten(tree, values) for key, values, tree in attributes}
    return ctx.operation(name, call_jaxpr if jaxpr is None else jaxpr, *operands, **params)


@rules.lower("platform_index")
def platform_index(ctx: Any, *, platforms: Sequence[tuple[str, ...] | None], **_: Any) -> Any:
    """The branch of `jax.lax.platform_dependent` for the CPU, or the default one."""
    for index, names in enumerate(platforms):
        if names is not None and "cpu" in names:
            return ctx.constant(np.array(index, np.int32))
    if None not in platforms:
        ctx.decline("platform_dependent has neither a branch for the CPU nor a default")
    return ctx.constant(np.array(list(platforms).index(None), np.int32))


rules.decompose("run_state", run_state)


@rules.decompose("call_hi_primitive")
def call_hi_primitive(*operands: Any, _prim: Any) -> Any:
    """A primitive of high-level types, such as `SearchSorted` in `jnp.searchsorted`: what it expands to.

    Its operands and its result are pytrees, flattened in the equation.
    """
    return _prim.expand(*jax.tree_util.tree_unflatten(_prim.in_tree, operands))


rules.unsupported(
    "custom_lin",
    "It is the forward derivative of a function that has only a reverse one (jax.custom_vjp).",
    "Differentiate with jax.grad or jax.vjp instead of jax.jvp, jax.jacfwd or jax.linearize.",
)
rules.unsupported(
    "call_exported",
    "It calls a serialised StableHLO module, whose operations are no longer JAX's.",
    "Export the Python function behind it instead of the jax.export.Exported object.",
)
