"""The layer operations "nn.embedding" as Gather and "nn.unembedding" as Gemm on the same table."""

from __future__ import annotations

import math
from typing import Literal

import jax.numpy as jnp
import numpy as np
from jax2onnx_core import Context, Rules, Value
from jax2onnx_core.jaxprs import definitely_le
from jax2onnx_graph.assumptions import Assumption

from jax2onnx_lax.dtypes import is_float
from jax2onnx_lax.integers._values import integers
from jax2onnx_lax.nn._operands import static_sizes

__all__ = ["rules"]

rules = Rules()


@rules.lower("nn.embedding")
def embedding(ctx: Context, table: Value, indices: Value, *, mode: Literal["fill", "clip"]) -> Value:
    """The rows of a table at indices; a negative index counts from the end, as in `jax.numpy.take`.

    Declined: a symbolic number of rows; the mode "fill" of a table of integers whose indices may be out of range; indices that may be
    negative, of a dtype that does not count the rows; indices wider than int32, which layers wrap to that before or after they count
    from the end.

    Under vmap: `keep_under_vmap=(1,)`.

    Args:
      ctx: the context of the rule.
      table: the rows, [V, D].
      indices: integers of any shape, [...].
      mode: the result at an index out of range: "fill" for a row of NaN, "clip" for the nearest row.

    Returns:
      [..., D], of the dtype of `table`.
    """
    (size,) = static_sizes(ctx, ctx.known_dims(table)[:1])
    if size - 1 > jnp.iinfo(ctx.dtype(indices)).max and not definitely_le(0, integers(ctx, indices).low):
        ctx.pass_on("counted from the end, a negative index leaves its dtype")
    if _in_range(ctx, indices, size):
        return ctx.op.Gather(table, indices, axis=0)
    if not np.can_cast(ctx.dtype(indices), np.int32):
        ctx.pass_on("layers wrap wide indices to int32 in one way or another")
    indices = ctx.cast(indices, np.int32)
    if mode == "fill" and not is_float(ctx.dtype(table)):
        ctx.pass_on("only a table of floats has rows of NaN")
    clipped = ctx.op.Clip(indices, ctx.constant(-size, like=indices), ctx.constant(size - 1, like=indices))
    if mode == "clip" or ctx.assumes(Assumption.FINITE):
        return ctx.op.Gather(table, clipped, axis=0)
    valid = ctx.op.Equal(indices, clipped)
    factor = ctx.op.Where(valid, ctx.constant(1, like=table), ctx.constant(np.nan, like=table))
    return ctx.op.Mul(ctx.op.Gather(table, clipped, axis=0), ctx.unsqueeze(factor, [-1]))


def _in_range(ctx: Context, indices: Value, size: int) -> bool:
    limits = jnp.iinfo(ctx.dtype(indices))
    if limits.min >= -size and limits.max < size:
        return True
    known = ctx.known(indices)
    return known is not None and bool(np.all((known >= -size) & (known < size)))


@rules.lower("nn.unembedding")
def unembedding(ctx: Context, query: Value, table: Value) -> Value:
    """The scalar products of vectors with the rows of a table: the logits of a language model with tied weights.

    Gemm reads the table without transposing it, so that a table that "nn.embedding" uses too is stored once and never
    copied at run time.

    Under vmap: `keep_under_vmap=(0,)`.

    Args:
      ctx: the context of the rule.
      query: the vectors, [..., D].
      table: the rows, [V, D].

    Returns:
      [..., V].
    """
    ctx.require("Gemm", query)
    (*batch, _), (size, features) = ctx.known_dims(query), ctx.known_dims(table)
    count = math.prod(batch)
    logits = ctx.op.Gemm(ctx.reshape(query, (count, features)), table, transB=1, dims=(count, size))
    return ctx.reshape(logits, (*batch, size))
