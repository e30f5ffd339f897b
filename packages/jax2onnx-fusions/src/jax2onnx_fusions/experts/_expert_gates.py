"""`expert_gate`: the gate of one expert, found as a column of a sparse array of the gates of all experts."""

from __future__ import annotations

import dataclasses

import numpy as np
from jax2onnx_graph import ir
from jax2onnx_graph.facts.axes import axis_of, known_operand, named_axes
from jax2onnx_graph.facts.operators import facts_of
from jax2onnx_graph.facts.sub_axes import SubAxis, result_sub_axes
from jax2onnx_graph.facts.values import LabelledDim, dims_of
from jax2onnx_graph.rewrite.patterns import is_floating, scalar

from jax2onnx_fusions.experts._sparsity import Sparsity, Validity, reduced_count, sparsity

__all__ = ["ExpertGate", "expert_gate"]

_Dims = tuple[LabelledDim, ...]
_DEPTH = 16


@dataclasses.dataclass(frozen=True)
class ExpertGate:
    """The gate of one expert.

    Attributes:
      source: the array that the gates of all experts are computed from alike: the gates, or the numbers of the chosen experts.
      axis: the axis of the source along which the experts lie; None for numbers of experts.
      number: the number of the expert.
      sparsity: a bound on the experts of different numbers whose gates are not zero, among those of the same source, axis and rows.
      rows: the axis of the gate that each other axis of the source is, if its size is not 1; None for one that is summed over.
        Elements at one place of gates with the same source, axis and rows are computed of the same line of the source.
    """

    source: ir.Value
    axis: int | None
    number: int
    sparsity: Sparsity
    rows: tuple[SubAxis | None, ...] = ()


def expert_gate(value: ir.Value | None, depth: int = _DEPTH) -> ExpertGate | None:
    """Read a value as the gate of one expert by the operators that computed it; None where it is none."""
    if value is None or (node := value.producer()) is None or node.domain or not depth:
        return None
    if facts_of(node.op_type).is_view or node.op_type in ("Cast", "Identity"):
        return _after(node, 0, expert_gate(node.inputs[0], depth - 1))
    match node.op_type:
        case "Gather" | "Slice" | "Split":
            return _taken(node, node.outputs.index(value))
        case "Equal":
            return _equal(node)
        case "Where" if scalar(node.inputs[2]) == 0:
            return _broadcast(node, depth)
        case "Mul" | "And":
            found = _broadcast(node, depth)
            return _at_best(found, Validity.IF_FINITE if is_floating(node.outputs[0]) else Validity.ALWAYS)
        case "ReduceSum" | "ReduceMax":
            return _reduced(node, depth)
    return None


def _broadcast(node: ir.Node, depth: int) -> ExpertGate | None:
    """The gate among the operands, broadcast to the result of the node."""
    for index, value in enumerate(node.inputs):
        found = expert_gate(value, depth - 1)
        if found is not None:
            return _after(node, index, found)
    return None


def _after(node: ir.Node, index: int, gate: ExpertGate | None) -> ExpertGate | None:
    """The gate that a node makes of one; None where it is not known which rows it reads."""
    if gate is None:
        return None
    rows = list[SubAxis | None]()
    for own in gate.rows:
        found = [None] if own is None else result_sub_axes(node, index, own)
        if found is None:
            return None
        rows.append(found[0])
    return dataclasses.replace(gate, rows=tuple(rows))


def _all_rows(dims: _Dims, axis: int | None = None) -> tuple[SubAxis, ...]:
    """The axes of a source but `axis`."""
    return tuple(SubAxis(place) for place, dim in enumerate(dims) if dim != 1 and place != axis)


def _at_best(column: ExpertGate | None, validity: Validity) -> ExpertGate | None:
    return None if column is None else dataclasses.replace(column, sparsity=column.sparsity.at_best(validity))


def _taken(node: ir.Node, output: int) -> ExpertGate | None:
    """The gate that is one position along an axis of an array of gates."""
    source, dims = node.inputs[0], dims_of(node.inputs[0])
    if source is None or dims is None or (place := _place(node, len(dims), output)) is None:
        return None
    axis, number = place
    size = dims[axis]
    if not isinstance(size, int) or not -size <= number < size:
        return None
    found = sparsity(source, SubAxis(axis), size)
    gate = None if found is None else ExpertGate(source, axis, number % size, found, _all_rows(dims, axis))
    return _after(node, 0, gate)


def _place(node: ir.Node, rank: int, output: int) -> tuple[int, int] | None:
    """The axis and the position that a Gather, Slice or Split takes."""
    axes = named_axes(node, rank) if node.op_type == "Slice" else [axis_of(node, rank)]
    places = np.array(output) if node.op_type == "Split" else known_operand(node, 1)
    if axes is None or places is None or places.size != 1:
        return None
    axis = axes[0]
    is_one = node.op_type == "Gather" or all((dims_of(part) or ())[axis : axis + 1] == (1,) for part in node.outputs)
    return (axis, int(places.item())) if is_one else None


def _equal(node: ir.Node) -> ExpertGate | None:
    """The gate of a comparison of the numbers of chosen experts with the number of one expert."""
    for index in (0, 1):
        number, numbers = scalar(node.inputs[1 - index]), node.inputs[index]
        dims = dims_of(numbers)
        if number is None or numbers is None or dims is None or numbers.dtype is None or not numbers.dtype.is_integer():
            continue
        return _after(node, index, ExpertGate(numbers, None, int(number), Sparsity(1), _all_rows(dims)))
    return None


def _reduced(node: ir.Node, depth: int) -> ExpertGate | None:
    """The gate of a sum or maximum over several chosen experts."""
    found, count = expert_gate(node.inputs[0], depth - 1), reduced_count(node)
    if found is None or count is None:
        return None
    return _after(node, 0, dataclasses.replace(found, sparsity=found.sparsity.times(count)))
