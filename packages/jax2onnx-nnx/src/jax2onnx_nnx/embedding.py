"""`nnx.Embed`: `Gather`, and the tied unembedding as `Gemm` on the same table."""

from __future__ import annotations

__all__ = ["composites", "rules"]

import math
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax2onnx_core import Call, Composites, Rules
from jax2onnx_lax.nn.activations import is_float, needs

from jax2onnx_nnx.layer import parameter, promoted

composites = Composites()
rules = Rules()


@composites.call("flax.nnx:Embed.__call__", name="nnx.embed")
def embed(self: Any, inputs: Any, out_sharding: Any = None) -> Call | None:
    if out_sharding is not None or self.num_embeddings == 1 or not jnp.issubdtype(inputs.dtype, jnp.integer):
        return None
    (table,) = self.promote_dtype((parameter(self.embedding),), dtype=self.dtype, inexact=False)
    return Call(table, inputs) if is_float(table) else None


@composites.call("flax.nnx:Embed.attend", name="nnx.attend")
def attend(self: Any, query: Any, out_sharding: Any = None) -> Call | None:
    arrays = promoted(self, query, parameter(self.embedding))
    return None if arrays is None or out_sharding is not None else Call(*arrays)


@rules.lower("nnx.embed")
def lower_embed(ctx: Any, table: Any, indices: Any) -> Any:
    """Rows of table [V, D] at indices [...]: [..., D]. Negative indices count from the end, as in `Gather`;
    an index out of range gives a row of NaN: -0.0 is added to the good rows, which changes nothing."""
    size = int(ctx.dims(table)[0])
    if _in_range(ctx, indices, size):
        return ctx.op.Gather(table, indices, axis=0)
    if ctx.dtype(indices) not in (np.int32, np.int64):
        indices = ctx.cast(indices, np.dtype(np.int64))
    clipped = ctx.op.Clip(indices, ctx.constant(-size, like=indices), ctx.constant(size - 1, like=indices))
    valid = ctx.op.Equal(indices, clipped)
    added = ctx.op.Where(valid, ctx.constant(-0.0, like=table), ctx.constant(np.nan, like=table))
    return ctx.op.Add(ctx.op.Gather(table, clipped, axis=0), ctx.unsqueeze(added, [-1]))


def _in_range(ctx: Any, indices: Any, size: int) -> bool:
    limits = np.iinfo(ctx.dtype(indices))
    if limits.min >= -size and limits.max < size:
        return True
    known = ctx.known(indices)
    return known is not None and bool(np.all((known >= -size) & (known < size)))


@rules.lower("nnx.attend")
def lower_attend(ctx: Any, query: Any, table: Any) -> Any:
    """query [..., D] by the transpose of table [V, D]: [..., V]. `Gemm` reads the table as it lies, so a table
    that is also gathered from is stored once and never copied at run time."""
    needs(ctx, "Gemm", query)
    dims, (size, features) = ctx.dims(query), ctx.dims(table)
    count = math.prod(dims[:-1])
    logits = ctx.op.Gemm(ctx.reshape(query, (count, features)), table, transB=1, dims=(count, size))
    return ctx.reshape(logits, (*dims[:-1], size))
