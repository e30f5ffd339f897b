"""Merge chains of casts whose first casts are exact."""

from __future__ import annotations

__all__ = ["FoldCasts", "is_exact_cast"]

from jax2onnx_graph._ir import ir
from jax2onnx_graph.rewrite.editor import GraphEditor
from jax2onnx_graph.rewrite.pass_base import GraphPass

_D = ir.DataType

# Widths of integer types, negative if signed.
_INTEGERS = {
    _D.UINT4: 4,
    _D.UINT8: 8,
    _D.UINT16: 16,
    _D.UINT32: 32,
    _D.UINT64: 64,
    _D.INT4: -4,
    _D.INT8: -8,
    _D.INT16: -16,
    _D.INT32: -32,
    _D.INT64: -64,
}
# Significant bits of the floats whose exponents hold every integer that the significand holds.
_FLOATS = {_D.FLOAT16: 11, _D.BFLOAT16: 8, _D.FLOAT: 24, _D.DOUBLE: 53}
_WIDER_FLOATS = {
    _D.FLOAT16: {_D.FLOAT, _D.DOUBLE},
    _D.BFLOAT16: {_D.FLOAT, _D.DOUBLE},
    _D.FLOAT: {_D.DOUBLE},
}


class FoldCasts(GraphPass):
    """Remove casts that change nothing.

    1. `Cast(x)` to the type that `x` has is `x`.
    2. `Cast(Cast(x))`, where the inner cast is exact, casts `x` directly, and is `x` where that is
       the type of `x`. An outer cast from a float to a narrower integer type stays: what it does
       out of range depends on the type that it comes from.
    """

    def rewrite(self, editor: GraphEditor) -> None:
        for node in editor.nodes():
            if node.op_type == "Cast" and not node.domain:
                _skip_exact_inner(editor, node)
                source = node.inputs[0]
                if source is not None and source.dtype == _D(node.attributes["to"].as_int()):
                    editor.replace(node, source)


def _skip_exact_inner(editor: GraphEditor, node: ir.Node) -> None:
    target = _D(node.attributes["to"].as_int())
    while (value := node.inputs[0]) is not None:
        inner = value.producer()
        if inner is None or inner.op_type != "Cast" or inner.domain:
            return
        source = inner.inputs[0]
        if source is None or source.dtype is None or value.dtype is None:
            return
        if not is_exact_cast(source.dtype, value.dtype):
            return
        if value.dtype in _FLOATS and target in _INTEGERS and not is_exact_cast(source.dtype, target):
            return
        node.replace_input_with(0, source)
        editor.modified = True


def is_exact_cast(source: ir.DataType, target: ir.DataType) -> bool:
    """Whether every value of `source` is a value of `target`."""
    if source == target:
        return True
    if source == _D.BOOL:
        return target in _INTEGERS or target in _FLOATS
    if source in _INTEGERS and target in _INTEGERS:
        return _integer_fits(_INTEGERS[source], _INTEGERS[target])
    if source in _INTEGERS and target in _FLOATS:
        return abs(_INTEGERS[source]) - (_INTEGERS[source] < 0) <= _FLOATS[target]
    return target in _WIDER_FLOATS.get(source, ())


def _integer_fits(source: int, target: int) -> bool:
    if source < 0:
        return target <= source
    return target >= source if target > 0 else -target > source
