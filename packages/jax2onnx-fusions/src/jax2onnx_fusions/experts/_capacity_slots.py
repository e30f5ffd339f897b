"""`combined_slots`, `gathered_slots`: how tokens get back what experts with a capacity made in their slots."""

from __future__ import annotations

import dataclasses

from jax2onnx_graph import ir
from jax2onnx_graph.facts.axes import axis_of
from jax2onnx_graph.facts.sizes import size_of
from jax2onnx_graph.facts.sub_axes import SubAxis
from jax2onnx_graph.facts.values import dims_of
from jax2onnx_graph.rewrite.patterns import operation

from jax2onnx_fusions.experts._expert_axes import ExpertAxes, Sizes
from jax2onnx_fusions.experts._sparsity import Sparsity, joint_sparsity

__all__ = ["CombinedSlots", "GatheredSlots", "Slots", "combined_slots", "gathered_slots"]


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
      sparsity: a bound on the gates of a token that are not zero.
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
    axes = SubAxis(1, inner=inner), SubAxis(1, outer)
    bound = joint_sparsity(gates, axes, (found.experts, found.capacity))
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
