"""`SelectCapacitySlots`: experts with a capacity compute only the slots that tokens occupy."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from jax2onnx_graph import ir
from jax2onnx_graph.assumptions import Assumption
from jax2onnx_graph.facts.sizes import size_of
from jax2onnx_graph.facts.values import dims_of
from jax2onnx_graph.forms import Threshold
from jax2onnx_graph.rewrite.editor import GraphEditor, InsertionPoint
from jax2onnx_graph.rewrite.pass_base import Declined, NodePass, Phase

from jax2onnx_fusions.experts._backward_slices import backward_slice, behind_weights, exclusive_nodes
from jax2onnx_fusions.experts._capacity_slots import CombinedSlots, GatheredSlots, Slots, combined_slots, gathered_slots
from jax2onnx_fusions.experts._expert_subgraph import ExpertSubgraph, Refused
from jax2onnx_fusions.experts._routed_computation import PairIndices, RoutedComputation
from jax2onnx_fusions.experts._routing import ROUTING_CALLS, GateUse, combined, in_shape_of, route, slot_pairs
from jax2onnx_fusions.experts.select_experts import NOT_FINITE, SelectExperts

__all__ = ["SelectCapacitySlots"]


@dataclasses.dataclass(frozen=True)
class _Found:
    slots: CombinedSlots | GatheredSlots
    region: ExpertSubgraph
    taken: int
    """The number of slots that are taken at most."""


class SelectCapacitySlots(NodePass[_Found]):
    """Compute only those slots of experts with a capacity that a token occupies.

    1. The sum is a product of gates, [tokens, experts · slots], and of the results of the experts at their slots.
    2. Of the gates of a token few are other than zero, as the operators that make them prove: products of a one-hot of experts and a
       one-hot of slots, sums of such, a scatter to zeros. The user promises that all numbers are finite.
    3. Or the results at some slots are gathered, where tokens were scattered to them: others need not be computed, and no promise
       is needed.
    4. The result of an expert at a slot is computed from the token there alone, and is read by the sum, or the gather, alone.
    5. A token that was dropped, because its expert had no slot for it, has no gate but zero, as before.
    6. It is done where fewer slots are taken than there are, and the products that are saved outweigh the nodes that are added.
    """

    phase = Phase.FUSE
    operators = frozenset({"MatMul", "Gather", "GatherND"})
    after = (SelectExperts,)
    forms = "A mixture of the slots that are occupied"

    def match(self, node: ir.Node, editor: GraphEditor) -> _Found | Declined | None:
        slots = combined_slots(node) if node.op_type == "MatMul" else gathered_slots(node)
        if slots is None:
            return None
        region = _region(slots, node)
        if isinstance(region, str):
            return Declined(region, node) if isinstance(slots, CombinedSlots) else None
        taken = _taken(slots)
        if taken is None:
            return Declined("how many tokens there are is not known, nor whether they are fewer than slots", node)
        if taken >= slots.count:
            return Declined("there are no more slots than tokens", node)
        calls = ROUTING_CALLS + region.products * (slots.experts + 2)
        if region.weights * (1 - taken / slots.count) <= calls * editor.threshold(Threshold.OPERATOR_CALL):
            return Declined("the experts are so small that choosing slots takes longer than computing all", node)
        if isinstance(slots, CombinedSlots) and not editor.assumes(Assumption.FINITE):
            return Declined(NOT_FINITE, node)
        return _Found(slots, region, taken)

    def rewrite(self, node: ir.Node, match: _Found, editor: GraphEditor) -> None:
        at, slots = editor.before(node), match.slots
        if isinstance(slots, CombinedSlots):
            tokens = (dims_of(slots.gates) or ())[0]
            routing = route(at, slots.gates, slots.experts, slots.sparsity, tokens, slots.capacity)
            made, features = _made(editor, at, match, routing.pairs)
            result = combined(at, routing, made, features, GateUse.WEIGH)
            editor.replace(node, in_shape_of(at, result, node.outputs[0], slots.gates, (0,)))
        else:
            numbers = _numbers(at, slots, match.taken)
            pairs, places = slot_pairs(at, numbers, slots.experts, slots.capacity, match.taken)
            made, _ = _made(editor, at, match, pairs)
            dims = [dim for dim in dims_of(node.outputs[0]) or () if isinstance(dim, int)]
            editor.replace(node, at.reshape(at.op.Gather(made, places, axis=0), dims))


def _region(slots: Slots, reader: ir.Node) -> ExpertSubgraph | str:
    """The nodes that compute what experts make, from tokens or at least from what was brought to their slots; or why not."""
    computing = exclusive_nodes({*backward_slice(slots.made)}, reader)
    reason = "nothing is multiplied by weights of experts"
    for inside in (computing, behind_weights(computing)):
        region = ExpertSubgraph(reader.graph, slots.sizes, inside)
        try:
            region.add(slots.made, slots.roles)
        except Refused as refused:
            reason = str(refused)
        else:
            if region.products:
                return region
    return reason


def _taken(slots: CombinedSlots | GatheredSlots) -> int | None:
    """The number of slots that are taken at most; None where it depends on symbols."""
    if isinstance(slots, CombinedSlots):
        tokens = (dims_of(slots.gates) or ())[0]
        return tokens * slots.sparsity.bound if isinstance(tokens, int) else None
    dims = dims_of(slots.indices) or ()
    return size_of(dims[:-1] if slots.are_pairs else dims).number


def _made(editor: GraphEditor, at: InsertionPoint, found: _Found, pairs: PairIndices) -> tuple[ir.Value, int]:
    """[pairs, features]: the results of experts at the slots of pairs, and the number of their features."""
    routed = RoutedComputation(editor, at, found.region, pairs)
    routed.compute()
    others = found.region.others(found.slots.made, found.slots.roles).values()
    return routed.value(found.slots.made, found.slots.roles), math.prod(others)


def _numbers(at: InsertionPoint, slots: GatheredSlots, count: int) -> ir.Value:
    """int64[count]: the number among all slots for each index; negative ones count from the end."""
    indices = at.cast(slots.indices, np.int64)
    if slots.are_pairs:
        indices = at.reshape(indices, [count, 2])
        inside = at.op.Mod(indices, at.ints([slots.experts, slots.capacity]))
        return at.op.ReduceSum(at.op.Mul(inside, at.ints([slots.capacity, 1])), at.ints([1]), keepdims=0)
    return at.op.Mod(at.reshape(indices, [count]), at.ints([slots.count]))
