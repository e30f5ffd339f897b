"""Nodes in front of or behind an operator that restore values which OpenVINO's kernel loses, NaN above all."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir
from jax2onnx_graph.build.attributes import attribute_values
from jax2onnx_graph.build.builder import GraphBuilder
from jax2onnx_graph.facts.values import LabelledDim, constant_tensor, dims_of, known, operand
from jax2onnx_graph.legalise import repairs
from jax2onnx_graph.legalise.repairs import Loss, Repair, with_nan
from jax2onnx_graph.rewrite.editor import GraphEditor, labelled
from jax2onnx_graph.targets import Target, standard_target

__all__ = ["RepairsPass"]

_ERF_SERIES = (-1 / 42, 1 / 10, -1 / 3, 1.0)
"""The coefficients of erf(x) / x, times √π / 2, in powers of x², the highest first."""

_AXIS_IS_OPERAND = 20
"""The opset from which on the axis of DFT is an operand."""

_ONE_AXIS = 2
"""The axes of one signal: that of the numbers, and that of their parts."""


class RepairsPass(repairs.RepairsPass):
    """Restore values that the kernels lose.

    1. `Max`, `Min`, `Clip`, `Exp`, `Celu` and `HardSigmoid`: a NaN among the operands is the result.
    2. `Relu`: numbers below zero are zero, anything else stays.
    3. `Greater` and `GreaterOrEqual`, which are true of NaN, are `Less` and `LessOrEqual` of the exchanged operands.
    4. `Cast` to booleans, false of NaN: whether the number is not equal to zero.
    5. `Mod` of floats, NaN where the divisor is infinite: the dividend where that is finite.
    6. `Erf`, which is right to 10⁻⁷: the first terms of its series near zero.
    7. `DFT` of one side, which repeats an axis: the first half of that of both sides.
    8. `DFT` along an axis that is an operand, which is not read, or counts from the end: along the second one, or from the beginning.
    9. `Loop`, which never ends for a negative number of steps: no steps.
    10. `Expand` of an axis to a size that may be 0, which is 1 where the plugin leaves it to an operator behind: the slice of that size.
    """

    def __init__(self, target: Target = standard_target) -> None:
        super().__init__(target, _LOSSES)

    def rewrite_graph(self, editor: GraphEditor) -> None:
        """Apply the rules above to one graph."""
        super().rewrite_graph(editor)
        for node in list(editor.nodes()):
            if node.op_type == "DFT" and not node.domain:
                _transform(editor, node)
            elif node.op_type == "Loop" and node.inputs[0] is not None and constant_tensor(node.inputs[0]) is None:
                steps, b = node.inputs[0], editor.before(node)
                node.replace_input_with(0, b.op("Max", steps, b.constant(0, like=steps)))
            elif node.op_type == "Expand" and _may_be_to_nothing(editor, node):
                _slice(editor, node)


def _may_be_to_nothing(editor: GraphEditor, node: ir.Node) -> bool:
    """Whether an axis may be repeated no times."""
    old, new = dims_of(node.inputs[0]), dims_of(node.outputs[0]) or ()
    aligned = (None,) * len(new) if old is None else (1,) * (len(new) - len(old)) + old
    return any(editor.may_be_zero(dim) and dim != size for size, dim in zip(aligned, new, strict=True))


def _slice(editor: GraphEditor, node: ir.Node) -> None:
    """Rule 10: all of the result of an Expand."""
    result = node.outputs[0]
    dims, builder = labelled(dims_of(result) or ()), editor.after(result)
    editor.reroute(
        result, lambda value: builder.op("Slice", value, builder.ints([0] * len(dims)), node.inputs[1], dims=dims)
    )


def _chosen(b: GraphBuilder, operands: list[ir.Value], _: ir.Value) -> ir.Value:
    (x,) = operands
    zero = b.constant(0, like=x)
    return b.op("Where", b.op("Less", x, zero), zero, x, dims=b.dims(x))


def _exchanged(op_type: str) -> Repair:
    def repair(b: GraphBuilder, operands: list[ir.Value], result: ir.Value) -> ir.Value:
        x, y = operands
        return b.op(op_type, y, x, dims=b.dims(result))

    return repair


def _is_true(b: GraphBuilder, operands: list[ir.Value], result: ir.Value) -> ir.Value:
    (x,) = operands
    return b.op("Not", b.op("Equal", x, b.constant(0, like=x)), dims=b.dims(result))


def _remainder(b: GraphBuilder, operands: list[ir.Value], result: ir.Value) -> ir.Value:
    x, y = operands
    dims = b.dims(result)
    is_whole = b.op("And", b.op("IsInf", y), b.op("Less", b.op("Abs", x), b.constant(np.inf, like=x)), dims=dims)
    return b.op("Where", is_whole, x, result, dims=dims)


def _erf(b: GraphBuilder, operands: list[ir.Value], result: ir.Value) -> ir.Value:
    (x,) = operands
    square, series = b.op("Mul", x, x), b.constant(_ERF_SERIES[0], like=x)
    for coefficient in _ERF_SERIES[1:]:
        series = b.op("Add", b.op("Mul", series, square), b.constant(coefficient, like=x))
    near_zero = b.op("Mul", x, b.op("Mul", series, b.constant(2 / math.sqrt(math.pi), like=x)))
    return b.op("Where", b.op("Less", b.op("Abs", x), b.constant(0.125, like=x)), near_zero, result)


def _transform(editor: GraphEditor, node: ir.Node) -> None:
    """Rules 7 and 8, where the axis and the number of axes are known."""
    dims, is_operand = dims_of(node.inputs[0]), editor.opset >= _AXIS_IS_OPERAND
    given = operand(node, 2) if is_operand else None
    default = node.attributes.get_int("axis", 1) if not is_operand else -2
    array = np.array(default) if given is None else known(given)
    if dims is None or array is None:
        return
    axis = array.item() % len(dims)
    if node.attributes.get_int("onesided", 0) == 1:
        _halve(editor, node, axis)
    if is_operand:
        _along_second(editor, node, axis, len(dims))
    elif node.attributes.get_int("axis", 1) != axis:
        node.attributes["axis"] = ir.AttrInt64("axis", axis)
        editor.modified = True


def _along_second(editor: GraphEditor, node: ir.Node, axis: int, rank: int) -> None:
    """A transform of opset 20 along the second axis, to which another one, or a new one before the only one, is brought."""
    x, result = node.inputs[0], node.outputs[0]
    if axis == 1 or x is None:
        return
    b, length = editor.before(node), operand(node, 1)
    if rank == _ONE_AXIS:
        row = b.op("Unsqueeze", x, b.ints([0]), dims=labelled((1, *(dims_of(x) or ()))))
        operands, dims = [row, length, b.constant(1, np.int64)], labelled((1, *(dims_of(result) or ())))
        (found,) = b.emit("DFT", operands, "", 1, None, dims, attribute_values(node))
        editor.put(node, "Squeeze", [found, b.ints([0])])
        return
    perm = list(range(rank))
    perm[1], perm[axis] = axis, 1
    shape = dims_of(result)
    turned = None if shape is None else labelled([shape[i] for i in perm])
    operands = [b.transpose(x, perm), length, b.constant(1, np.int64)]
    (found,) = b.emit("DFT", operands, "", 1, None, turned, attribute_values(node))
    editor.replace(node, b.transpose(found, perm))


def _halve(editor: GraphEditor, node: ir.Node, axis: int) -> None:
    """The first half of the transform of both sides."""
    result, dims = node.outputs[0], dims_of(node.outputs[0])
    b = editor.after(result)
    half, size = b.dims(result), None if dims is None else dims[axis]
    end = b.ints([size]) if isinstance(size, int) else _half_length(b, node, axis)
    node.attributes["onesided"] = ir.AttrInt64("onesided", 0)
    result.shape = None if dims is None else _with_length(node, dims, axis)
    editor.reroute(result, lambda value: b.op("Slice", value, b.ints([0]), end, b.ints([axis]), dims=half))


def _half_length(b: GraphBuilder, node: ir.Node, axis: int) -> ir.Value:
    """The number of elements of the one side of a DFT, [1]."""
    x, given = node.inputs[0], operand(node, 1)
    assert x is not None
    size = b.op("Shape", x, start=axis, end=axis + 1) if given is None else b.op("Reshape", given, b.ints([1]))
    return b.op("Add", b.op("Div", b.cast(size, np.int64), b.ints([2])), b.ints([1]))


def _with_length(node: ir.Node, dims: Sequence[LabelledDim], axis: int) -> ir.Shape | None:
    """The shape of both sides of a DFT: `dims` with the length of the signal along the axis; None if that is not known."""
    given, signal = operand(node, 1), dims_of(node.inputs[0])
    number = known(given)
    if number is not None:
        length = number.item()
    elif given is None and signal is not None:
        length = signal[axis]
    else:
        return None
    return ir.Shape([length if i == axis else dim for i, dim in enumerate(dims)])


_LOSSES = {
    **dict.fromkeys(("Max", "Min", "Clip", "Exp", "Celu", "HardSigmoid"), Loss("nan", with_nan)),
    "Relu": Loss("nan", _chosen),
    "Greater": Loss("nan", _exchanged("Less")),
    "GreaterOrEqual": Loss("nan", _exchanged("LessOrEqual")),
    "Cast": Loss("nan", _is_true, result=ir.DataType.BOOL),
    "Mod": Loss("inf", _remainder),
    "Erf": Loss("accurate", _erf),
}
