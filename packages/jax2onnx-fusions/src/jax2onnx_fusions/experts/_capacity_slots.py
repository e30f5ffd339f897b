"""`combined_slots`: the combine product of capacity dispatch, a sum over the slots that each expert has for tokens."""

from __future__ import annotations

import dataclasses
import math

from jax2onnx_graph import ir
from jax2onnx_graph.facts.axes import named_axes, rank_of
from jax2onnx_graph.facts.operators import facts_of
from jax2onnx_graph.facts.sizes import size_of
from jax2onnx_graph.facts.sub_axes import SubAxis, operand_sub_axes
from jax2onnx_graph.facts.values import dims_of
from jax2onnx_graph.rewrite.patterns import operation, scalar

from jax2onnx_fusions.experts._expert_axes import ExpertAxes, Sizes, operand_axes
from jax2onnx_fusions.experts._sparsity import KEEP_ZEROS, Sparsity, Validity, sparsity

__all__ = ["CombinedSlots", "combined_slots"]

_DEPTH = 24


@dataclasses.dataclass(frozen=True)
class CombinedSlots:
    """The combine product of capacity dispatch: for each token, the sum over slots of the expert's result times the gate.

    Attributes:
      gates: [tokens, experts · slots], the gates.
      made: [experts · slots, features], the results of the experts.
      roles: the rows of `made` that are slots, in the place of tokens, and those that are experts.
      sizes: the numbers of slots and experts.
      sparsity: a bound on the gates of a token that are not zero.
    """

    gates: ir.Value
    made: ir.Value
    roles: ExpertAxes
    sizes: Sizes
    sparsity: Sparsity


def combined_slots(node: ir.Node) -> CombinedSlots | None:
    """Read a product [tokens, experts · slots] · [experts · slots, features] as a sum over slots; None where it is none."""
    gates, made = node.inputs[:2]
    view = operation(gates, "Reshape")
    split, dims = dims_of(None if view is None else view.inputs[0]), dims_of(made)
    if gates is None or made is None or split is None or dims is None or len(split) != 3 or len(dims) != 2:
        return None
    experts, slots = split[1:]
    if not isinstance(experts, int) or not isinstance(slots, int) or (dims_of(gates) or ())[1:] != (experts * slots,):
        return None
    outer, inner = size_of([experts]), size_of([slots])
    bound = _joint(gates, _Axes(SubAxis(1, inner=inner), SubAxis(1, outer), experts, slots), _DEPTH)
    if bound is None or dims[0] != experts * slots:
        return None
    roles = ExpertAxes((SubAxis(0, outer),), SubAxis(0, inner=inner))
    return CombinedSlots(gates, made, roles, Sizes((slots,), experts), bound)


@dataclasses.dataclass(frozen=True)
class _Axes:
    """The rows of a value that are experts, and those that are slots; None where the value is the same for all of them."""

    experts: SubAxis | None
    slots: SubAxis | None
    count: int
    capacity: int

    def of_operand(self, node: ir.Node, index: int) -> _Axes | None:
        """The axes of an operand; None where a row depends on other rows."""
        found = []
        for rows in (self.experts, self.slots):
            own = None if rows is None else operand_sub_axes(node, rows)
            if rows is not None and (own is None or len(own) <= index):
                return None
            found.append(None if own is None else own[index])
        return dataclasses.replace(self, experts=found[0], slots=found[1])


def _joint(value: ir.Value | None, axes: _Axes | None, depth: int) -> Sparsity | None:
    """A bound on the nonzero elements among all slots of all experts."""
    if value is None or axes is None or not depth:
        return None
    if axes.experts is None or axes.slots is None:
        return None
    node = value.producer()
    if node is None or node.domain:
        return None
    if facts_of(node.op_type).is_view or node.op_type in KEEP_ZEROS:
        return _joint(node.inputs[0], axes.of_operand(node, 0), depth - 1)
    match node.op_type:
        case "Greater" if scalar(node.inputs[1]) == 0:
            return _joint(node.inputs[0], axes.of_operand(node, 0), depth - 1)
        case "Mul" | "And":
            return _product(node, axes, depth)
        case "MatMul":
            return _matmul(node, axes)
        case "ReduceSum" | "ReduceMax":
            return _reduction(node, axes, depth)
    return None


def _product(node: ir.Node, axes: _Axes, depth: int) -> Sparsity | None:
    """The least bound of a factor, or the product of the bounds of one that differs by expert and one that differs by slot."""
    found, by_expert, by_slot = list[Sparsity](), list[Sparsity](), list[Sparsity]()
    for index, operand in enumerate(node.inputs):
        own = axes.of_operand(node, index)
        if own is None:
            return None
        if own.experts is not None and own.slots is not None:
            found += _present(_joint(operand, own, depth - 1))
        elif own.experts is not None:
            by_expert += _present(sparsity(operand, own.experts, own.count))
        elif own.slots is not None:
            by_slot += _present(sparsity(operand, own.slots, own.capacity))
    found += [_times(one, other) for one in by_expert for other in by_slot]
    best = min(found, key=lambda one: (one.bound, one.validity), default=None)
    if best is None or node.op_type == "And":
        return best
    return best.at_best(Validity.IF_FINITE)


def _present(found: Sparsity | None) -> list[Sparsity]:
    return [] if found is None else [found]


def _times(one: Sparsity, other: Sparsity) -> Sparsity:
    return Sparsity(one.bound * other.bound, max(one.validity, other.validity))


def _matmul(node: ir.Node, axes: _Axes) -> Sparsity | None:
    """The bound of a MatMul of a one-hot of experts and a one-hot of slots."""
    roles = operand_axes(node, ExpertAxes((axes.slots,), axes.experts))
    dims = dims_of(node.inputs[0])
    if roles is None or dims is None or not isinstance(dims[-1], int):
        return None
    found: list[Sparsity] = []
    for operand, own in zip(node.inputs, roles, strict=True):
        (slots,), experts = own.tokens, own.expert
        if experts is not None and slots is None:
            found += _present(sparsity(operand, experts, axes.count))
        elif slots is not None and experts is None:
            found += _present(sparsity(operand, slots, axes.capacity))
    if len(found) != 2:
        return None
    return Sparsity(math.prod(one.bound for one in found) * dims[-1], Validity.IF_FINITE)


def _reduction(node: ir.Node, axes: _Axes, depth: int) -> Sparsity | None:
    """The bound of one table times the number of tables that are reduced: each may hold other elements."""
    rank, dims = rank_of(node.inputs[0]), dims_of(node.inputs[0])
    reduced = None if rank is None else named_axes(node, rank)
    found = _joint(node.inputs[0], axes.of_operand(node, 0), depth - 1)
    if reduced is None or dims is None or found is None:
        return None
    sizes = [dims[axis] for axis in reduced]
    if not all(isinstance(size, int) for size in sizes):
        return None
    return Sparsity(found.bound * math.prod(size for size in sizes if isinstance(size, int)), found.validity)
