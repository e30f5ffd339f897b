"""Which operators compute the same with the axes of their tensors in another order, and how.

A *layout* `perm` says how a tensor `v` is kept: as `kept` with `v = Transpose(kept, perm)`, so axis `a`
of `v` is axis `perm[a]` of `kept`.
"""

from __future__ import annotations

__all__ = [
    "Layout",
    "compose",
    "inverse",
    "layout_agnostic_inputs",
    "moves_only_ones",
    "permuted",
    "remaining",
    "rewrite_axes",
]

from collections.abc import Sequence

import numpy as np

from jax2onnx_graph._ir import ir
from jax2onnx_graph.facts.axes import axis_of, known_operand, named_axes, rank_of
from jax2onnx_graph.facts.operators import Operands, facts_of
from jax2onnx_graph.facts.values import LabelledDim, dims_of, known
from jax2onnx_graph.forms import ALONG_AN_AXIS
from jax2onnx_graph.rewrite.editor import GraphEditor
from jax2onnx_graph.targets import Target

Layout = tuple[int, ...]


def inverse(perm: Sequence[int]) -> Layout:
    """The permutation that undoes `perm`."""
    result = [0] * len(perm)
    for position, axis in enumerate(perm):
        result[axis] = position
    return tuple(result)


def compose(first: Sequence[int], second: Sequence[int]) -> Layout:
    """One permutation for `Transpose(Transpose(x, first), second)`."""
    return tuple(first[axis] for axis in second)


def permuted(dims: Sequence[LabelledDim], perm: Sequence[int]) -> tuple[LabelledDim, ...]:
    """The dimensions of `Transpose(x, perm)` for those of `x`."""
    return tuple(dims[axis] for axis in perm)


def moves_only_ones(dims: Sequence[LabelledDim], perm: Sequence[int]) -> bool:
    """Whether `Transpose(x, perm)` leaves the order of the elements of `x` alone."""
    kept = [axis for axis in perm if dims[axis] != 1]
    return kept == sorted(kept)


def layout_agnostic_inputs(node: ir.Node, perm: Layout, target: Target) -> range | None:
    """The places of the inputs of `node` that may be kept in layout `perm`; None if none may.

    All its outputs have that layout then, and `rewrite_axes` makes the rest of the node fit.
    """
    facts = facts_of(node.op_type)
    if node.domain or facts.layout_operands is Operands.NONE:
        return None
    if any(rank_of(value) != len(perm) for value in node.outputs):
        return None
    if facts.reduces and not node.attributes.get_int("keepdims", 1):
        return None
    if facts.axis is not None and not _is_as_fast(node, perm, target):
        return None
    if (facts.axes_input is not None or facts.per_axis_inputs) and not _operands_can_be_adapted(node, perm):
        return None
    return range(len(node.inputs)) if facts.layout_operands is Operands.ALL else range(1)


def _is_as_fast(node: ir.Node, perm: Layout, target: Target) -> bool:
    """Whether the operator is as fast along the axis that it would be computed along in layout `perm`."""
    axis = axis_of(node, len(perm))
    if axis != len(perm) - 1 or perm[axis] == axis:
        return True
    forms = ALONG_AN_AXIS.get(node.op_type)
    return forms is None or target.prefers(*forms) is forms[0]


def _operands_can_be_adapted(node: ir.Node, perm: Layout) -> bool:
    """Whether the operands that name axes, or hold a number for each, are constants that can be rewritten."""
    facts = facts_of(node.op_type)
    if rank_of(node.inputs[0]) != len(perm) or "axes" in node.attributes:
        return False
    for index in (facts.axes_input, *facts.per_axis_inputs):
        value = node.inputs[index] if index is not None and index < len(node.inputs) else None
        if value is not None and known(value) is None:
            return False
    if node.op_type == "Slice":
        return named_axes(node, len(perm)) is not None
    return node.op_type != "Expand" or dims_of(node.inputs[1]) == (len(perm),)


def rewrite_axes(editor: GraphEditor, node: ir.Node, perm: Layout) -> None:
    """Rewrite the axes that `node` names, by attributes or constant operands, for operands kept in layout `perm`."""
    facts = facts_of(node.op_type)
    if facts.axis is not None:
        axis = perm[axis_of(node, len(perm))]
        node.attributes.add(ir.AttrInt64("axis", axis))
        return
    axes = named_axes(node, len(perm))
    if axes is not None:
        _set_axes(editor, node, [perm[axis] for axis in axes])
        return
    for index in facts.per_axis_inputs:
        _permute_operand(editor, node, index, perm)


def remaining(node: ir.Node, perm: Layout) -> Layout | None:
    """The layout of the result of a node that removes axes of an operand kept in layout `perm`.

    None for a node that does not remove known axes.
    """
    if node.domain or len(node.outputs) != 1:
        return None
    facts = facts_of(node.op_type)
    if not (node.op_type == "Squeeze" or (facts.reduces and not node.attributes.get_int("keepdims", 1))):
        return None
    if _reduces_everything(node):
        return ()
    axes = named_axes(node, len(perm)) if facts.axis is None else [axis_of(node, len(perm))]
    if axes is None:
        return None
    kept = [perm[axis] for axis in range(len(perm)) if axis not in axes]
    order = sorted(kept)
    return tuple(order.index(axis) for axis in kept)


def _reduces_everything(node: ir.Node) -> bool:
    facts = facts_of(node.op_type)
    if not facts.reduces or facts.axes_input is None:
        return False
    named = len(node.inputs) > facts.axes_input and node.inputs[facts.axes_input] is not None
    return not named and not node.attributes.get_int("noop_with_empty_axes", 0)


def _set_axes(editor: GraphEditor, node: ir.Node, axes: list[int]) -> None:
    index = facts_of(node.op_type).axes_input
    assert index is not None, "called for operators with an input that lists axes"
    if index >= len(node.inputs):
        node.resize_inputs(index + 1)
    scalar = rank_of(node.inputs[index]) == 0
    node.replace_input_with(index, editor.constant(np.array(axes[0] if scalar else axes, np.int64)))


def _permute_operand(editor: GraphEditor, node: ir.Node, index: int, perm: Layout) -> None:
    numbers = known_operand(node, index)
    if numbers is None or numbers.size % len(perm) or not numbers.size:
        return
    order = inverse(perm)
    laid_out = numbers.reshape(-1, len(perm))[:, order].reshape(-1)
    node.replace_input_with(index, editor.constant(np.ascontiguousarray(laid_out)))
