"""Permutations of axes, and the operators that compute the same on tensors whose axes are permuted.

A tensor `v` is *kept permuted* by `perm` where the graph holds `kept` with `v = Transpose(kept, perm)`, so that axis `a`
of `v` is axis `perm[a]` of `kept`.
"""

from __future__ import annotations

__all__ = [
    "Permutation",
    "inverse",
    "moves_only_ones",
    "permutable_inputs",
    "permuted",
    "remaining_permutation",
    "rewrite_axes",
]

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from jax2onnx_graph._ir import ir
from jax2onnx_graph.facts.axes import axis_of, known_operand, named_axes, rank_of
from jax2onnx_graph.facts.operators import Operands, facts_of
from jax2onnx_graph.facts.values import LabelledDim, dims_of, known, operand
from jax2onnx_graph.forms import ALONG_AN_AXIS
from jax2onnx_graph.rewrite.editor import GraphEditor
from jax2onnx_graph.targets import Target

#: Axis i of the result of a Transpose is axis `perm[i]` of its operand.
Permutation = tuple[int, ...]

#: What an axis has, such as its size.
_OfAxis = TypeVar("_OfAxis")


def inverse(perm: Sequence[int]) -> Permutation:
    """The permutation that undoes `perm`."""
    result = [0] * len(perm)
    for position, axis in enumerate(perm):
        result[axis] = position
    return tuple(result)


def permuted(axes: Sequence[_OfAxis], perm: Sequence[int]) -> tuple[_OfAxis, ...]:
    """Permute what `x` has along its axes as `Transpose(x, perm)` does: sizes, or, where `x` is a Transpose itself, the axes of its operand."""
    return tuple(axes[axis] for axis in perm)


def moves_only_ones(dims: Sequence[LabelledDim], perm: Sequence[int]) -> bool:
    """Whether `Transpose(x, perm)` leaves the order of the elements of `x` alone."""
    kept = [axis for axis in perm if dims[axis] != 1]
    return kept == sorted(kept)


def permutable_inputs(node: ir.Node, perm: Permutation, target: Target) -> range | None:
    """The inputs of a node that may be kept permuted, if all its outputs are kept so, too.

    `rewrite_axes` makes the rest of the node fit.

    Args:
      node: the node, whose operands are as they are.
      perm: the permutation, of as many axes as the outputs have.
      target: decides whether an operator is as fast along another axis.

    Returns:
      The places of the inputs; None where the node does not compute the same on permuted operands.
    """
    facts = facts_of(node.op_type)
    if node.domain or facts.permutable_operands is Operands.NONE:
        return None
    if any(rank_of(value) != len(perm) for value in node.outputs):
        return None
    if facts.reduces and not node.attributes.get_int("keepdims", 1):
        return None
    if facts.axis is not None and not _is_as_fast(node, perm, target):
        return None
    if (facts.axes_input is not None or facts.per_axis_inputs) and not _operands_can_be_adapted(node, perm):
        return None
    return range(len(node.inputs)) if facts.permutable_operands is Operands.ALL else range(1)


def _is_as_fast(node: ir.Node, perm: Permutation, target: Target) -> bool:
    """Whether the operator is as fast along the axis that it would be computed along on permuted operands."""
    axis = axis_of(node, len(perm))
    if axis != len(perm) - 1 or perm[axis] == axis:
        return True
    forms = ALONG_AN_AXIS.get(node.op_type)
    return forms is None or target.prefers(*forms) is forms[0]


def _operands_can_be_adapted(node: ir.Node, perm: Permutation) -> bool:
    """Whether the operands that name axes, or hold a number for each, are constants that can be rewritten."""
    facts = facts_of(node.op_type)
    if rank_of(node.inputs[0]) != len(perm) or "axes" in node.attributes:
        return False
    for index in (facts.axes_input, *facts.per_axis_inputs):
        value = None if index is None else operand(node, index)
        if value is not None and known(value) is None:
            return False
    if node.op_type == "Slice":
        return named_axes(node, len(perm)) is not None
    return node.op_type != "Expand" or dims_of(node.inputs[1]) == (len(perm),)


def rewrite_axes(editor: GraphEditor, node: ir.Node, perm: Permutation) -> None:
    """Rewrite the axes that a node names, by attributes or constant operands, for operands that are kept permuted.

    Args:
      editor: the graph.
      node: the node, one that `permutable_inputs` or `remaining_permutation` accepts.
      perm: the permutation that its operands are kept by.
    """
    facts, axes = facts_of(node.op_type), named_axes(node, len(perm))
    if facts.axis is not None:
        node.attributes.add(ir.AttrInt64("axis", perm[axis_of(node, len(perm))]))
    elif axes is not None:
        _set_axes(editor, node, [perm[axis] for axis in axes])
    else:
        for index in facts.per_axis_inputs:
            _permute_operand(editor, node, index, perm)


def remaining_permutation(node: ir.Node, perm: Permutation) -> Permutation | None:
    """The permutation that the result of a node is kept by if its operand, of which it removes axes, is kept by `perm`.

    None for a node that does not remove known axes.
    """
    facts = facts_of(node.op_type)
    if node.domain or not (node.op_type == "Squeeze" or (facts.reduces and not node.attributes.get_int("keepdims", 1))):
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
    named = operand(node, facts.axes_input) is not None or "axes" in node.attributes
    return not named and not node.attributes.get_int("noop_with_empty_axes", 0)


def _set_axes(editor: GraphEditor, node: ir.Node, axes: list[int]) -> None:
    index = facts_of(node.op_type).axes_input
    assert index is not None, "called for operators with an input that lists axes"
    if index >= len(node.inputs):
        node.resize_inputs(index + 1)
    scalar = rank_of(node.inputs[index]) == 0
    node.replace_input_with(index, editor.constant(np.array(axes[0] if scalar else axes, np.int64)))


def _permute_operand(editor: GraphEditor, node: ir.Node, index: int, perm: Permutation) -> None:
    numbers = known_operand(node, index)
    if numbers is None or numbers.size % len(perm) or not numbers.size:
        return
    order = inverse(perm)
    reordered = numbers.reshape(-1, len(perm))[:, order].reshape(-1)
    node.replace_input_with(index, editor.constant(np.ascontiguousarray(reordered)))
