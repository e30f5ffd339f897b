"""`sequential_scan`: a scan that stays a loop and is not solved as a recurrence."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax
from jax import lax
from jax2onnx_core import Call, Dim, Value, bind_composite
from jax2onnx_core.jax_types import PyTree
from jax2onnx_core.jaxprs import is_static, open_jaxpr

from jax2onnx_lax.complex._arrays import joined, parts
from jax2onnx_lax.recurrence._errors import UnsuitableError

__all__ = ["SEQUENTIAL", "Loop", "sequential_scan"]

#: Writes a scan as a loop, in the context that it gets, with its operands.
Loop = Callable[..., Sequence[Value]]

SEQUENTIAL = "recurrence.sequential"


def sequential_scan(
    step: Callable[..., tuple[PyTree, PyTree]], init: PyTree, xs: PyTree, length: Dim | None = None, *,
    constants: Sequence[jax.Array] = (), divided: bool = True,
) -> tuple[PyTree, PyTree]:  # fmt: skip
    """Run `lax.scan(step, init, xs)` and export it step by step; unless `divided`, also the equations that read only `xs`.

    Each step gets the constants after its carry and row. Complex numbers are carried in parts.
    """
    if jax.tree_util.tree_leaves(xs):
        length = None
    elif length is None or not is_static(length):
        raise UnsuitableError("the number of its steps is symbolic")
    first, tree = jax.tree_util.tree_flatten(parts((init, xs, constants)))
    count = len(jax.tree_util.tree_leaves(parts(init)))

    def original() -> tuple[PyTree, PyTree]:
        init, xs, fixed = jax.tree_util.tree_unflatten(tree, first)
        return lax.scan(lambda *row: parts(step(*joined((*row, *fixed)))), init, xs, length=length)

    equations = open_jaxpr(jax.make_jaxpr(original)())[0].eqns
    results = jax.tree_util.tree_leaves(jax.eval_shape(original))
    if len(equations) != 1 or len(equations[0].outvars) != len(results):
        raise UnsuitableError("JAX simplifies what remains of it")
    result: tuple[PyTree, PyTree] = joined(
        bind_composite(SEQUENTIAL, Call(*first, num_carry=count, divided=divided), original)
    )
    return result
