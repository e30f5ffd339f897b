"""`combined_slots`, `gathered_slots`: how tokens get back what experts with a capacity made in their slots."""

from __future__ import annotations

import dataclasses

from jax2onnx_graph import ir
from jax2onnx_graph.facts.axes import axis_of
from jax2onnx_graph.facts.operators import facts_of
from jax2onnx_graph.facts.sizes import size_of
from jax2onnx_graph.facts.sub_axes import SubAxis
from jax2onnx_graph.facts.values import dims_of
from jax2onnx_graph.rewrite.patterns import operation, scalar

from jax2onnx_fusions.experts._expert_axes import ExpertAxes, Sizes, operand_axes
from jax2onnx_fusions.experts._sparsity import KEEP_ZEROS, Sparsity, reduced_count, scattered, sparsity

__all__ = ["CombinedSlots", "GatheredSlots", "Slots", "combined_slots", "gathered_slots"]

_DEPTH = 24


@dataclasses.dataclass(frozen=True)
class Slots:
    """What experts made in their slots.

    Attributes:
      made: [experts · slots, features] or [experts, slots, features], the results of the experts.
      roles: the rows of `made` that are slots, in the place of tokens, and those that are experts.
      experts: the number of experts.
      capacity: the number of slots of each.
    """

    made: ir.Value
    roles: ExpertAxes
    experts: int
    capacity: int

    @property
    def sizes(self) -> Sizes:
        """The numbers of slots, in the place of tokens, and of experts."""
        return Sizes((self.capacity,), self.experts)

    @property
    def count(self) -> int:
        """The number of all slots."""
        return self.experts * self.capacity


@dataclasses.dataclass(frozen=True)
class CombinedSlots(Slots):
    """The combine product of capacity dispatch: for each token, the sum over slots of the expert's result times the gate.

    Attributes:
      gates: [tokens, experts · slots], the gates.
      sparsity: a bound on the gates of a token that are not zero, if all numbers are finite.
    """

    gates: ir.Value
    sparsity: Sparsity


@dataclasses.dataclass(frozen=True)
class GatheredSlots(Slots):
    """The results of the slots that tokens were scattered to, gathered for each token.

    Attributes:
      indices: the numbers of slots among all; or the numbers of the expert and of its slot, along the last axis.
      are_pairs: whether indices are pairs of numbers.
    """

    indices: ir.Value
    are_pairs: bool


def combined_slots(node: ir.Node) -> CombinedSlots | None:
    """Read a product [tokens, experts · slots] · [experts · slots, features] as a sum over slots; None where it is none."""
    gates, made = node.inputs[:2]
    if gates is None or made is None or len(dims_of(gates) or ()) != 2:
        return None
    found = _split_by(gates, made, (1, 2)) or _split_by(made, made, (0, 1))
    if found is None or (dims_of(gates) or ())[1] != found.count:
        return None
    outer, inner = size_of([found.experts]), size_of([found.capacity])
    axes = _Axes(SubAxis(1, inner=inner), SubAxis(1, outer), found.experts, found.capacity)
    bound = _joint(gates, axes, _DEPTH)
    return None if bound is None else CombinedSlots(**vars(found), gates=gates, sparsity=bound)


def gathered_slots(node: ir.Node) -> GatheredSlots | None:
    """Read a Gather or GatherND as one of the results of slots; None where it is none."""
    made, indices = node.inputs[:2]
    dims, numbers = dims_of(made), dims_of(indices)
    if made is None or indices is None or dims is None or numbers is None:
        return None
    are_pairs = node.op_type == "GatherND"
    if are_pairs:
        found = _apart(made) if numbers[-1:] == (2,) and node.attributes.get_int("batch_dims", 0) == 0 else None
    else:
        found = _split_by(made, made, (0, 1)) if axis_of(node, len(dims)) == 0 else None
    return None if found is None else GatheredSlots(**vars(found), indices=indices, are_pairs=are_pairs)


def _apart(made: ir.Value) -> Slots | None:
    """The slots of [experts, slots, features]."""
    match dims_of(made):
        case (int() as experts, int() as capacity, _):
            return Slots(made, ExpertAxes((SubAxis(1),), SubAxis(0)), experts, capacity)
    return None


def _split_by(view: ir.Value, made: ir.Value, axes: tuple[int, int]) -> Slots | None:
    """The slots of [experts · slots, features] by a view of a value that has experts and slots apart, in `axes`."""
    reshape, dims = operation(view, "Reshape"), dims_of(made)
    split = dims_of(None if reshape is None else reshape.inputs[0])
    if split is None or dims is None or len(split) != 3 or len(dims) != 2:
        return None
    experts, capacity = (split[axis] for axis in axes)
    if not isinstance(experts, int) or not isinstance(capacity, int) or dims[0] != experts * capacity:
        return None
    roles = ExpertAxes((SubAxis(0, size_of([experts])),), SubAxis(0, inner=size_of([capacity])))
    return Slots(made, roles, experts, capacity)


@dataclasses.dataclass(frozen=True)
class _Axes:
    """The rows of a value that are experts, and those that are slots; None where the value is the same for all of them."""

    experts: SubAxis | None
    slots: SubAxis | None
    count: int
    capacity: int

    def of_operand(self, node: ir.Node, index: int) -> _Axes | None:
        """The axes of an operand; None where a row depends on other rows."""
        found = operand_axes(node, ExpertAxes((self.slots,), self.experts))
        return (
            None
            if found is None
            else dataclasses.replace(self, experts=found[index].expert, slots=found[index].tokens[0])
        )


def _joint(value: ir.Value | None, axes: _Axes | None, depth: int) -> Sparsity | None:
    """A bound on the nonzero elements among all slots of all experts, if all numbers are finite."""
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
        case "ScatterElements" | "ScatterND" | "Slice":
            return scattered(value, axes.count * axes.capacity)
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
    return min(found, key=lambda one: (one.bound, one.validity), default=None)


def _present(found: Sparsity | None) -> list[Sparsity]:
    return [] if found is None else [found]


def _times(one: Sparsity, other: Sparsity) -> Sparsity:
    return Sparsity(one.bound * other.bound, max(one.validity, other.validity))


def _matmul(node: ir.Node, axes: _Axes) -> Sparsity | None:
    """The bound of a MatMul of a one-hot of experts and a one-hot of slots."""
    left, right = axes.of_operand(node, 0), axes.of_operand(node, 1)
    dims = dims_of(node.inputs[0])
    if left is None or right is None or dims is None or not isinstance(dims[-1], int):
        return None
    found: list[Sparsity] = []
    for operand, own in zip(node.inputs, (left, right), strict=True):
        if own.experts is not None and own.slots is None:
            found += _present(sparsity(operand, own.experts, axes.count))
        elif own.slots is not None and own.experts is None:
            found += _present(sparsity(operand, own.slots, axes.capacity))
    return _times(*found).times(dims[-1]) if len(found) == 2 else None


def _reduction(node: ir.Node, axes: _Axes, depth: int) -> Sparsity | None:
    """The bound of one table times the number of tables that are reduced: each may hold other elements."""
    found, count = _joint(node.inputs[0], axes.of_operand(node, 0), depth - 1), reduced_count(node)
    return None if found is None or count is None else found.times(count)
