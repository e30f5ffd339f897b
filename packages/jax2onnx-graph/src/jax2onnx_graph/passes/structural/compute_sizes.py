"""`ComputeSizes`: no Reshape finds a size by itself beside a copied one that may be 0."""

from __future__ import annotations

import math
from collections.abc import Sequence

from jax2onnx_graph._ir import ir
from jax2onnx_graph.facts.values import dims_of, known
from jax2onnx_graph.rewrite.editor import GraphEditor, InsertionPoint
from jax2onnx_graph.rewrite.pass_base import NodePass, Phase

__all__ = ["ComputeSizes"]


class ComputeSizes(NodePass[Sequence[int]]):
    """Sizes that nothing says where a copied size is 0 are computed.

    1. `Reshape(x, [0, 6, -1])` of an `x` whose first size may be 0 gets the shape that it has: the last size is the product of the sizes of
       `x` that are not copied, over 6.
    """

    phase = Phase.FINISH
    operators = frozenset({"Reshape"})

    def match(self, node: ir.Node, editor: GraphEditor) -> Sequence[int] | None:
        """The shape, with 0 for a copied size and -1 for one that is found."""
        dims, shape = dims_of(node.inputs[0]), known(node.inputs[1])
        if dims is None or shape is None or -1 not in shape or node.attributes.get_int("allowzero", 0) == 1:
            return None
        copied = [dims[axis] for axis, size in enumerate(shape.tolist()) if size == 0]
        return shape.tolist() if any(map(editor.may_be_zero, copied)) else None

    def rewrite(self, node: ir.Node, match: Sequence[int], editor: GraphEditor) -> None:
        source, builder = node.inputs[0], editor.before(node)
        assert source is not None, "match has looked at its dimensions"
        parts = [
            _size(builder, source, axis)
            if size == 0
            else _rest(builder, source, match)
            if size == -1
            else builder.ints([size])
            for axis, size in enumerate(match)
        ]
        shape = builder.op.Concat(*parts, axis=0, dims=(len(match),))
        editor.put(node, "Reshape", [source, shape], {"allowzero": 1})


def _size(builder: InsertionPoint, value: ir.Value, axis: int) -> ir.Value:
    return builder.op.Shape(value, start=axis, end=axis + 1, dims=(1,))


def _rest(builder: InsertionPoint, source: ir.Value, shape: Sequence[int]) -> ir.Value:
    """The product of the sizes that are not copied, over the numbers in the shape."""
    rest = [(axis, d) for axis, d in enumerate(dims_of(source) or ()) if axis >= len(shape) or shape[axis] != 0]
    numbers, divisor = (
        math.prod(d for _, d in rest if isinstance(d, int)),
        math.prod(size for size in shape if size > 0),
    )
    common = math.gcd(numbers, divisor)
    product = builder.ints([numbers // common])
    for axis, dim in rest:
        if not isinstance(dim, int):
            product = builder.op.Mul(_size(builder, source, axis), product, dims=(1,))
    return product if divisor == common else builder.op.Div(product, builder.ints([divisor // common]), dims=(1,))
