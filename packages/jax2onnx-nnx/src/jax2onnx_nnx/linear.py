"""`nnx.Linear`, `nnx.LinearGeneral`, `nnx.Einsum`: one `MatMul`, one `Add`, and reshapes only at the ends.

From their primitives the bias would be added in its broadcast shape: under another name and shape than
the user's parameter, and, for several output axes, after the reshape that the next layer undoes.
"""

from __future__ import annotations

__all__ = ["composites", "rules"]

import math
from typing import Any

import jax
import jax.numpy as jnp
from jax2onnx_core import Call, Composites, Rules
from jax2onnx_lax.nn.activations import needs

from jax2onnx_nnx.layer import parameter, promoted

composites = Composites()
rules = Rules()


@composites.call("flax.nnx:Linear.__call__", name="nnx.linear")
def linear(self: Any, inputs: Any, out_sharding: Any = None) -> Call | None:
    if self.dot_general is not jax.lax.dot_general or self.preferred_element_type is not None:
        return None
    return None if out_sharding is not None else _projection(self, inputs, 1)


@composites.call("flax.nnx:LinearGeneral.__call__", name="nnx.linear")
def linear_general(self: Any, inputs: Any, out_sharding: Any = None) -> Call | None:
    custom = (self.dot_general, self.dot_general_cls, self.preferred_element_type, out_sharding)
    if any(x is not None for x in custom) or self.batch_axis:
        return None
    count = len(self.axis)
    if tuple(a if a < 0 else a - inputs.ndim for a in self.axis) != tuple(range(-count, 0)):
        return None
    return _projection(self, inputs, count)


@composites.call("flax.nnx:Einsum.__call__", name="nnx.linear")
def einsum(self: Any, inputs: Any, einsum_str: str | None = None, out_sharding: Any = None) -> Call | None:
    equation = einsum_str or self.einsum_str
    custom = self.einsum_op is not jnp.einsum or self.preferred_element_type is not None or out_sharding is not None
    count = None if custom or not equation else _contracted(equation.replace(" ", ""), inputs.ndim)
    if count is None or (self.bias is not None and self.bias.shape != self.kernel.shape[count:]):
        return None
    return _projection(self, inputs, count)


def _contracted(equation: str, rank: int) -> int | None:
    """How many trailing axes of the input are contracted with as many leading axes of the kernel, where
    that is all that the equation does: 2 for "...nh,nhd->...d"."""
    operands, arrow, result = equation.partition("->")
    left, right = operands.split(",")
    if "..." in left:
        unnamed = "".join(chr(0x391 + i) for i in range(rank - len(left) + 3))
        left, result = left.replace("...", unnamed), result.replace("...", unnamed)
    shared = set(left) & set(right)
    count = len(shared)
    plain = arrow and "." not in right + result and len(set(left)) == len(left) and len(set(right)) == len(right)
    if not plain or not count or left[-count:] != right[:count] or shared & set(result):
        return None
    return count if result == left[:-count] + right[count:] else None


def _projection(layer: Any, inputs: Any, contracted: int) -> Call | None:
    arrays = promoted(layer, inputs, parameter(layer.kernel), parameter(layer.bias))
    return None if arrays is None else Call(*arrays, contracted=contracted)


@rules.lower("nnx.linear")
def lower_linear(ctx: Any, x: Any, kernel: Any, bias: Any, *, contracted: int) -> Any:
    """[..., *I] by [*I, *O] plus [*O]: [..., *O]. Flattened to matrices, so that reshapes of neighbours cancel."""
    needs(ctx, "MatMul", x)
    batch, features = ctx.dims(x)[:-contracted], ctx.dims(kernel)
    inner, outer = math.prod(features[:contracted]), math.prod(features[contracted:])
    matrices = (ctx.reshape(x, (*batch, inner)), ctx.reshape(kernel, (inner, outer)))
    y = ctx.op.MatMul(*matrices, dims=(*batch, outer))
    if bias is not None:
        y = ctx.op.Add(y, ctx.reshape(bias, (outer,)))
    return ctx.reshape(y, (*batch, *features[contracted:]))
