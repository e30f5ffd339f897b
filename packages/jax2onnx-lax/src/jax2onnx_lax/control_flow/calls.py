"""Calls: an equation that wraps a jaxpr without changing its values is replaced by that jaxpr's equations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import jax
import numpy as np
from jax2onnx_core import Context, Jaxpr, Rules, Value
from jax2onnx_core.jax_types import PyTree, PyTreeDef

from jax2onnx_lax._compat import run_state

__all__ = ["rules"]

rules = Rules()

# Attributes of `jax.lax.composite`: the name, the leaves and the tree of each.
_Attributes = Sequence[tuple[str, Sequence[object], PyTreeDef]]


@rules.lower("jit", "remat2", physical=True)
def call_with_jaxpr(ctx: Context, *operands: Value, jaxpr: Jaxpr, **_: object) -> Sequence[Value]:
    return ctx.inline(jaxpr, *operands)


@rules.lower(
    "call", "closed_call", "custom_jvp_call", "custom_vjp_call", "eval_jaxpr", "xla_metadata_call", physical=True
)
def call_with_call_jaxpr(
    ctx: Context, *operands: Value, call_jaxpr: Jaxpr | None = None, jaxpr: Jaxpr | None = None, **_: object
) -> Sequence[Value]:
    return ctx.inline(_given(call_jaxpr, jaxpr), *operands)


@rules.lower("custom_vmap_call", "custom_partitioning", physical=True)
def call_with_call(ctx: Context, *operands: Value, call: Jaxpr, **_: object) -> Sequence[Value]:
    return ctx.inline(call, *operands)


@rules.lower("linear_call", physical=True)
def linear_call(ctx: Context, *operands: Value, callee: Jaxpr, **_: object) -> Sequence[Value]:
    return ctx.inline(callee, *operands)


@rules.lower("remat_opt", physical=True)
def remat_opt(ctx: Context, *operands: Value, fwd_jaxpr: Jaxpr, **_: object) -> Sequence[Value]:
    return ctx.inline(fwd_jaxpr, *operands)


@rules.lower("composite", physical=True)
def composite(
    ctx: Context, *operands: Value, name: str, attributes: _Attributes,
    jaxpr: Jaxpr | None = None, call_jaxpr: Jaxpr | None = None, **_: object,
) -> Sequence[Value]:  # fmt: skip
    """`jax.lax.composite`: by the rules declared for its name, with its attributes as parameters, else inlined."""
    params = {key: jax.tree_util.tree_unflatten(tree, leaves) for key, leaves, tree in attributes}
    return ctx.operation(name, _given(jaxpr, call_jaxpr), *operands, **params)


def _given(first: Jaxpr | None, second: Jaxpr | None) -> Jaxpr:
    """The jaxpr of a parameter that has one of two names, depending on the primitive and on JAX's version."""
    jaxpr = second if first is None else first
    assert jaxpr is not None, "a call has a jaxpr under one of the two names"
    return jaxpr


@rules.lower("platform_index")
def platform_index(ctx: Context, *, platforms: Sequence[tuple[str, ...] | None], **_: object) -> Value:
    """The number of the branch of `jax.lax.platform_dependent` for the CPU, else of the default (None)."""
    for index, names in enumerate(platforms):
        if names is not None and "cpu" in names:
            return ctx.constant(np.array(index, np.int32))
    if None not in platforms:
        ctx.decline("platform_dependent has neither a branch for the CPU nor a default")
    return ctx.constant(np.array(list(platforms).index(None), np.int32))


rules.decompose("run_state", run_state)


class _HiPrimitive(Protocol):
    """The part of JAX's `HiPrimitive` that is used: the tree of its operands, and its expansion."""

    @property
    def in_tree(self) -> PyTreeDef: ...
    def expand(self, *operands: PyTree) -> PyTree: ...


@rules.decompose("call_hi_primitive")
def call_hi_primitive(*operands: jax.Array, _prim: _HiPrimitive) -> PyTree:
    """The expansion of a primitive of high-level types, such as `SearchSorted` in `jnp.searchsorted`.

    The equation has the leaves of its operands' and its result's pytrees.
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
