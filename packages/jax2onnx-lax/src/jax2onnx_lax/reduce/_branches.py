"""`branch`: an If between two ways to compute results, for a case that is rare at run time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from jax2onnx_core import Context, Value
from jax2onnx_graph.forms import Form

__all__ = ["Results", "branch"]

#: Computes the results of one way in the context that it gets.
Results = Callable[[Context], Sequence[Value]]


def branch(ctx: Context, condition: Value | None, *, rare: Results, usual: Results) -> Sequence[Value]:
    """The results of one of two computations, by an If; those of the rare one, which is always right, where the target prefers no If.

    Both have the same number of results, of equal dtypes and dimensions.

    Args:
      ctx: the context of the rule.
      condition: a bool scalar; None for False, without an If.
      rare: computes the results where the condition holds.
      usual: computes the results elsewhere.
    """
    if condition is None:
        return usual(ctx)
    if ctx.prefers(Form.RARE_IN_A_BRANCH, Form.RARE_ALWAYS) is Form.RARE_ALWAYS:
        return rare(ctx)
    exceptional, regular = ctx.subgraph("rare"), ctx.subgraph("usual")
    rare_results, usual_results = rare(exceptional), usual(regular)
    dims = [regular.known_dims(value) for value in usual_results]
    results = ctx.op.several(
        "If", condition, outputs=len(dims), then_branch=exceptional.graph(rare_results),
        else_branch=regular.graph(usual_results),
    )  # fmt: skip
    for result, known in zip(results, dims, strict=True):
        ctx.set_dims(result, known)
    return results
