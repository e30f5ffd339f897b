"""`cond` and `switch` as If."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax
import numpy as np
from jax2onnx_core import Context, Jaxpr, Rules, Value
from jax2onnx_core.jaxprs import eval_jaxpr, open_jaxpr, struct

from jax2onnx_lax.control_flow._carried import any_narrow, apart, together

__all__ = ["rules"]

rules = Rules()


@rules.lower("cond", physical=True)
def cond(ctx: Context, index: Value, *operands: Value, branches: Sequence[Jaxpr], **_: object) -> Sequence[Value]:
    """An If; of more than two branches, a balanced tree of them. An index out of range is clamped, as in XLA."""
    known = ctx.known(index)
    if known is not None:
        taken = branches[int(np.clip(known, 0, len(branches) - 1))]
        return ctx.inline(taken, *operands)
    if any_narrow(ctx.avals_out):
        return ctx.inline(jax.make_jaxpr(_handing_on(branches))(*map(struct, ctx.avals_in)), index, *operands)
    return _choose(ctx, index, operands, branches, 0)


def _handing_on(branches: Sequence[Jaxpr]) -> Callable[..., list[jax.Array]]:
    """The same choice between branches that give their results `apart`."""
    dtypes = [v.aval.dtype for v in open_jaxpr(branches[0])[0].outvars]

    def chosen(index: jax.Array, *operands: jax.Array) -> list[jax.Array]:
        def taking(branch: Jaxpr) -> Callable[..., list[tuple[jax.Array, ...]]]:
            return lambda *xs: list(map(apart, eval_jaxpr(branch, *xs)))

        return list(map(together, jax.lax.switch(index, list(map(taking, branches)), *operands), dtypes))

    return chosen


def _choose(
    ctx: Context, index: Value, operands: Sequence[Value], branches: Sequence[Jaxpr], first: int
) -> tuple[Value, ...]:
    """The results of branch `index`, where `branches` are those from number `first` on."""
    if len(branches) == 1:
        return ctx.inline(branches[0], *operands)
    if not ctx.avals_out:
        return ()
    middle = (len(branches) + 1) // 2
    lower, upper = ctx.subgraph("branch"), ctx.subgraph("branch")
    low = _choose(lower, index, operands, branches[:middle], first)
    high = _choose(upper, index, operands, branches[middle:], first + middle)
    results = ctx.op.several(
        "If", ctx.op.GreaterOrEqual(index, ctx.constant(first + middle, like=index)), outputs=len(low),
        then_branch=upper.graph(high), else_branch=lower.graph(low),
    )  # fmt: skip
    for result, inner in zip(results, high, strict=True):
        if (dims := upper.dims(inner)) is not None:
            ctx.set_dims(result, dims)
    return results
