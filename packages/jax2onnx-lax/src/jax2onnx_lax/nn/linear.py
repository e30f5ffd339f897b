"""The layer operation "nn.linear" as one MatMul and one Add, with reshapes only at the ends.

From its primitives the bias would be added in its broadcast shape: under another name and shape than the parameter of
the user's model, and, for several output axes, after the reshape that the next layer undoes.
"""

from __future__ import annotations

import math

from jax2onnx_core import Context, Rules, Value

__all__ = ["contracted_axes", "rules"]

rules = Rules()


@rules.lower("nn.linear")
def linear(
    ctx: Context, x: Value, kernel: Value, bias: Value | None, *, contracted: int, transposed: bool = False
) -> Value:
    """An affine map of the last axes: the product of `x` and `kernel` over the axes I, plus the bias.

    Declined: a kernel that is the transpose of a weight which is read already, as of a table of embeddings; the product with the
    table as it is stored is that of `dot_general`.

    Under vmap: `keep_under_vmap=(0,)`.

    Args:
      ctx: the context of the rule.
      x: the inputs, [..., *I].
      kernel: the weights, [*I, *O], or [*O, *I] if `transposed`.
      bias: [*O], or None.
      contracted: the number of axes I, at least 1; O may have any number of axes, none too.
      transposed: whether the kernel has its axes I last.

    Returns:
      [..., *O].
    """
    ctx.require("MatMul", x)
    table = ctx.transposed_weight(kernel)
    if table is not None and table.uses():
        ctx.pass_on("its kernel is the transpose of a weight that is read already")
    dims, features = ctx.known_dims(x), ctx.known_dims(kernel)
    batch, contracted_dims = dims[:-contracted], dims[-contracted:]
    results = features[:-contracted] if transposed else features[contracted:]
    inner, outer = math.prod(contracted_dims), math.prod(results)
    # As matrices, so that the reshapes of neighbours cancel.
    matrix = ctx.reshape(kernel, (outer, inner) if transposed else (inner, outer))
    matrix = ctx.transpose(matrix, (1, 0)) if transposed else matrix
    y = ctx.op.MatMul(ctx.reshape(x, (*batch, inner)), matrix, dims=(*batch, outer))
    if bias is not None:
        y = ctx.op.Add(y, ctx.reshape(bias, (outer,)))
    return ctx.reshape(y, (*batch, *results))


def contracted_axes(equation: str, rank: int) -> int | None:
    """The number of axes that "nn.linear" contracts to compute an einsum of two operands.

    2 for "...nh,nhd->...d"; None where the equation does anything else than contract the last axes of the first operand
    with the first axes of the second.

    Args:
      equation: the subscripts of the einsum.
      rank: the number of axes of the first operand.
    """
    operands, arrow, result = equation.replace(" ", "").partition("->")
    left, comma, right = operands.partition(",")
    if not arrow or not comma or "," in right or "." in right:
        return None
    if "..." in left:
        # One private letter for each of the axes that the dots stand for.
        unnamed = "".join(chr(0x391 + i) for i in range(rank - len(left) + 3))
        left, result = left.replace("...", unnamed), result.replace("...", unnamed)
    shared = set(left) & set(right)
    count = len(shared)
    distinct = len(set(left)) == len(left) and len(set(right)) == len(right)
    if "." in result or not distinct or not count or left[-count:] != right[:count] or shared & set(result):
        return None
    return count if result == left[:-count] + right[count:] else None
