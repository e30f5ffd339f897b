"""`FoldCasts`: chains of casts whose first casts are exact are merged."""

from __future__ import annotations

__all__ = ["FoldCasts"]

from jax2onnx_graph._ir import ir
from jax2onnx_graph.facts.dtypes import is_exact_cast
from jax2onnx_graph.rewrite.editor import GraphEditor
from jax2onnx_graph.rewrite.pass_base import NodePass, Phase
from jax2onnx_graph.rewrite.patterns import operation

_D = ir.DataType


class FoldCasts(NodePass[ir.Value]):
    """Remove casts that change nothing.

    1. `Cast(x)` to the type that `x` has is `x`.
    2. `Cast(Cast(x))`, where the inner cast is exact, casts `x` directly, and is `x` where that is
       the type of `x`. An outer cast from a float to a narrower integer type stays: what it does
       out of range depends on the type that it comes from. So do casts from floats of 8 bits or less: a cast
       back to those saturates infinities, and not every runtime casts them as it casts wider floats.
    """

    phase = Phase.SIMPLIFY
    operators = frozenset({"Cast"})

    def match(self, node: ir.Node, editor: GraphEditor) -> ir.Value | None:
        """The value that the Cast may read, where that is another one or already of the type."""
        target = _target(node)
        source = _first_exact_operand(node.inputs[0], target)
        changes = source is not None and (source is not node.inputs[0] or source.dtype == target)
        return source if changes else None

    def rewrite(self, node: ir.Node, match: ir.Value, editor: GraphEditor) -> None:
        if match is not node.inputs[0]:
            node.replace_input_with(0, match)
            editor.modified = True
        if match.dtype == _target(node):
            editor.replace(node, match)


def _target(cast: ir.Node) -> ir.DataType:
    return _D(cast.attributes["to"].as_int())


def _first_exact_operand(value: ir.Value | None, target: ir.DataType) -> ir.Value | None:
    """The value that `value` is made from by casts of which each may be left out before a cast to `target`."""
    while value is not None and (inner := operation(value, "Cast")) is not None:
        source = inner.inputs[0]
        if source is None or not _may_be_skipped(source.dtype, value.dtype, target):
            break
        value = source
    return value


def _may_be_skipped(source: ir.DataType | None, between: ir.DataType | None, target: ir.DataType) -> bool:
    """Whether a cast from `source` to `between` and then to `target` is the cast from `source` to `target`."""
    if source is None or between is None or _is_narrow_float(source) or not is_exact_cast(source, between):
        return False
    return not (between.is_floating_point() and target.is_integer()) or is_exact_cast(source, target)


def _is_narrow_float(dtype: ir.DataType) -> bool:
    return dtype.is_floating_point() and dtype.bitwidth <= 8
