"""Which operators compute the same with the axes of their tensors in another order, and how.

A *layout* `perm` says how a tensor `v` is kept: as `kept` with `v = Transpose(kept, perm)`, so axis `a`
of `v` is axis `perm[a]` of `kept`.
"""

from __future__ import annotations

__all__ = ["Layout", "adapt", "carried", "inverse", "moves_only_ones", "permuted", "remaining", "then"]

from collections.abc import Sequence

import numpy as np

from jax2onnx_graph._ir import ir
from jax2onnx_graph.facts.values import LabelledDim, dims_of, known
from jax2onnx_graph.passes.structural.implicit_broadcast import BROADCASTING
from jax2onnx_graph.rewrite.editor import GraphEditor

Layout = tuple[int, ...]

_UNARY = frozenset({
    "Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "BitwiseNot", "Cast", "Ceil", "Celu", "Clip",
    "Cos", "Cosh", "Dropout", "Elu", "Erf", "Exp", "Floor", "Gelu", "HardSigmoid", "HardSwish", "Identity",
    "IsInf", "IsNaN", "LeakyRelu", "Log", "Mish", "Neg", "Not", "Reciprocal", "Relu", "Round", "Selu",
    "Shrink", "Sigmoid", "Sign", "Sin", "Sinh", "Softplus", "Softsign", "Sqrt", "Swish", "Tan", "Tanh",
    "ThresholdedRelu",
})  # fmt: skip
# Operators with one `axis` attribute, and its default.
_AXIS = {
    "Softmax": -1, "LogSoftmax": -1, "Hardmax": -1, "Concat": 0, "Split": 0, "ArgMax": 0, "ArgMin": 0,
    "TopK": -1,
}  # fmt: skip
# ONNX Runtime computes these along the last axis at a third of the time of any other.
_BEST_LAST = frozenset({"Softmax", "LogSoftmax", "Hardmax", "TopK"})
_REDUCE = frozenset({
    "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin",
    "ReduceProd", "ReduceSum", "ReduceSumSquare",
})  # fmt: skip
# The operands that hold a list of axes, and those that hold one number per axis.
_AXES_OPERAND = dict.fromkeys(_REDUCE, 1) | {"CumSum": 1, "Squeeze": 1, "Slice": 3, "Pad": 3}
_PER_AXIS_OPERANDS = {"Pad": (1,), "Tile": (1,), "Expand": (1,), "Resize": (1, 2, 3)}


def inverse(perm: Sequence[int]) -> Layout:
    """The permutation that undoes `perm`."""
    result = [0] * len(perm)
    for position, axis in enumerate(perm):
        result[axis] = position
    return tuple(result)


def then(first: Sequence[int], second: Sequence[int]) -> Layout:
    """One permutation for `Transpose(Transpose(x, first), second)`."""
    return tuple(first[axis] for axis in second)


def permuted(dims: Sequence[LabelledDim], perm: Sequence[int]) -> tuple[LabelledDim, ...]:
    """The dimensions of `Transpose(x, perm)` for those of `x`."""
    return tuple(dims[axis] for axis in perm)


def moves_only_ones(dims: Sequence[LabelledDim], perm: Sequence[int]) -> bool:
    """Whether `Transpose(x, perm)` leaves the order of the elements of `x` alone."""
    kept = [axis for axis in perm if dims[axis] != 1]
    return kept == sorted(kept)


def carried(node: ir.Node, perm: Layout) -> range | None:
    """The inputs of `node` that may be kept in layout `perm` if its outputs are; None if none may.

    All its outputs then are, and `adapt` makes the rest of the node fit.
    """
    op_type = node.op_type
    if node.domain or any(_rank(value) != len(perm) for value in node.outputs):
        return None
    if op_type in _UNARY:
        return range(1)
    if op_type in BROADCASTING:
        return range(len(node.inputs))
    if op_type in _AXIS:
        return _carried_along_axis(node, perm)
    if op_type in _AXES_OPERAND or op_type in _PER_AXIS_OPERANDS:
        return _carried_with_operands(node, perm)
    return None


def _carried_along_axis(node: ir.Node, perm: Layout) -> range | None:
    axis = _axis(node, len(perm))
    if node.op_type in _BEST_LAST and axis == len(perm) - 1 != perm[axis]:
        return None
    if node.op_type.startswith("Arg") and not node.attributes.get_int("keepdims", 1):
        return None
    return range(len(node.inputs)) if node.op_type == "Concat" else range(1)


def _carried_with_operands(node: ir.Node, perm: Layout) -> range | None:
    if _rank(node.inputs[0]) != len(perm) or "axes" in node.attributes:
        return None
    if node.op_type in _REDUCE and not node.attributes.get_int("keepdims", 1):
        return None
    for index in (_AXES_OPERAND.get(node.op_type), *_PER_AXIS_OPERANDS.get(node.op_type, ())):
        value = node.inputs[index] if index is not None and index < len(node.inputs) else None
        if value is not None and known(value) is None:
            return None
    if node.op_type == "Slice" and _named_axes(node, len(perm)) is None:
        return None
    if node.op_type == "Expand" and dims_of(node.inputs[1]) != (len(perm),):
        return None
    return range(1)


def adapt(editor: GraphEditor, node: ir.Node, perm: Layout) -> None:
    """Make the axes that `node` names fit operands kept in layout `perm`."""
    if node.op_type in _AXIS:
        axis = perm[_axis(node, len(perm))]
        node.attributes.add(ir.AttrInt64("axis", axis))
        return
    axes = _named_axes(node, len(perm)) if node.op_type in _AXES_OPERAND else None
    if axes is not None:
        _set_axes(editor, node, [perm[axis] for axis in axes])
    elif node.op_type in _PER_AXIS_OPERANDS:
        for index in _PER_AXIS_OPERANDS[node.op_type]:
            _permute_operand(editor, node, index, perm)


def remaining(node: ir.Node, perm: Layout) -> Layout | None:
    """The layout of the result of a node that removes axes of an operand kept in layout `perm`.

    None for a node that does not remove known axes.
    """
    if node.domain or len(node.outputs) != 1:
        return None
    removing = node.op_type == "Squeeze"
    if node.op_type in _REDUCE or node.op_type in ("ArgMax", "ArgMin"):
        removing = not node.attributes.get_int("keepdims", 1)
    if not removing:
        return None
    if _reduces_everything(node):
        return ()
    axes = [_axis(node, len(perm))] if node.op_type in _AXIS else _named_axes(node, len(perm))
    if axes is None:
        return None
    kept = [perm[axis] for axis in range(len(perm)) if axis not in axes]
    order = sorted(kept)
    return tuple(order.index(axis) for axis in kept)


def _reduces_everything(node: ir.Node) -> bool:
    named = len(node.inputs) > 1 and node.inputs[1] is not None
    return node.op_type in _REDUCE and not named and not node.attributes.get_int("noop_with_empty_axes", 0)


def _rank(value: ir.Value | None) -> int | None:
    dims = dims_of(value)
    return None if dims is None else len(dims)


def _axis(node: ir.Node, rank: int) -> int:
    axis = node.attributes.get_int("axis", _AXIS[node.op_type])
    return axis + rank if axis < 0 else axis


def _operand(node: ir.Node, index: int) -> np.ndarray | None:
    return known(node.inputs[index]) if index < len(node.inputs) else None


def _named_axes(node: ir.Node, rank: int) -> list[int] | None:
    """The axes that the node's operand names; None where it names none, or not constantly."""
    index = _AXES_OPERAND.get(node.op_type, 1)
    axes = _operand(node, index)
    if axes is None and node.op_type == "Slice":
        starts = _operand(node, 1)
        dims = dims_of(node.inputs[1])
        count = len(starts) if starts is not None else dims[0] if dims else None
        axes = np.arange(count) if isinstance(count, int) else None
    return None if axes is None else [int(axis) % rank for axis in axes.reshape(-1)]


def _set_axes(editor: GraphEditor, node: ir.Node, axes: list[int]) -> None:
    index = _AXES_OPERAND.get(node.op_type, 1)
    if index >= len(node.inputs):
        node.resize_inputs(index + 1)
    scalar = node.op_type == "CumSum" and _rank(node.inputs[1]) == 0
    node.replace_input_with(index, editor.constant(np.array(axes[0] if scalar else axes, np.int64)))


def _permute_operand(editor: GraphEditor, node: ir.Node, index: int, perm: Layout) -> None:
    numbers = _operand(node, index)
    if numbers is None or numbers.size % len(perm) or not numbers.size:
        return
    order = inverse(perm)
    laid_out = numbers.reshape(-1, len(perm))[:, order].reshape(-1)
    node.replace_input_with(index, editor.constant(np.ascontiguousarray(laid_out)))
