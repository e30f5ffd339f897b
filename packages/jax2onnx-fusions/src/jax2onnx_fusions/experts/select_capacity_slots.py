"""`SelectCapacitySlots`: experts with a capacity compute only the slots that tokens occupy."""

from __future__ import annotations

import dataclasses
import math

from jax2onnx_graph import ir
from jax2onnx_graph.assumptions import Assumption
from jax2onnx_graph.facts.values import dims_of
from jax2onnx_graph.forms import Threshold
from jax2onnx_graph.rewrite.editor import GraphEditor
from jax2onnx_graph.rewrite.pass_base import Declined, NodePass, Phase

from jax2onnx_fusions.experts._backward_slices import backward_slice, exclusive_nodes
from jax2onnx_fusions.experts._capacity_slots import CombinedSlots, combined_slots
from jax2onnx_fusions.experts._expert_subgraph import ExpertSubgraph, Refused
from jax2onnx_fusions.experts._routed_computation import RoutedComputation
from jax2onnx_fusions.experts._routing import ROUTING_CALLS, GateUse, combined, in_shape_of, route
from jax2onnx_fusions.experts.select_experts import NOT_FINITE, SelectExperts

__all__ = ["SelectCapacitySlots"]


@dataclasses.dataclass(frozen=True)
class _Found:
    slots: CombinedSlots
    region: ExpertSubgraph


class SelectCapacitySlots(NodePass[_Found]):
    """Compute only those slots of experts with a capacity that a token occupies.

    1. The sum is a product of gates, [tokens, experts · slots], and of the results of the experts at their slots.
    2. Of the gates of a token few are other than zero, as the operators that make them prove: products of a one-hot of experts and a
       one-hot of slots, sums of such. The user promises that all numbers are finite.
    3. The result of an expert at a slot is computed from the token there alone, and is read by the sum alone.
    4. A token that was dropped, because its expert had no slot for it, has no gate but zero, as before.
    5. It is done where fewer slots are taken than there are, and the products that are saved outweigh the nodes that are added.
    """

    phase = Phase.FUSE
    operators = frozenset({"MatMul"})
    after = (SelectExperts,)
    forms = "A mixture of the slots that are occupied"

    def match(self, node: ir.Node, editor: GraphEditor) -> _Found | Declined | None:
        slots = combined_slots(node)
        if slots is None:
            return None
        tokens = (dims_of(slots.gates) or ())[0]
        if not isinstance(tokens, int):
            return Declined("how many tokens there are is not known, nor whether they are fewer than slots", node)
        region = ExpertSubgraph(slots.sizes, exclusive_nodes({*backward_slice(slots.made)}, node))
        try:
            region.add(slots.made, slots.roles)
        except Refused as refused:
            return Declined(str(refused), node)
        (capacity,) = slots.sizes.tokens
        taken = tokens * slots.sparsity.bound / (slots.sizes.experts * int(str(capacity)))
        if taken >= 1:
            return Declined("there are no more slots than tokens", node)
        calls = ROUTING_CALLS + region.products * (slots.sizes.experts + 2)
        if region.weights * (1 - taken) <= calls * editor.threshold(Threshold.OPERATOR_CALL):
            return Declined("the experts are so small that choosing slots takes longer than computing all", node)
        return _Found(slots, region) if editor.assumes(Assumption.FINITE) else Declined(NOT_FINITE, node)

    def rewrite(self, node: ir.Node, match: _Found, editor: GraphEditor) -> None:
        at, slots, region = editor.before(node), match.slots, match.region
        tokens, (capacity,) = (dims_of(slots.gates) or ())[0], slots.sizes.tokens
        routing = route(at, slots.gates, slots.sizes.experts, slots.sparsity, tokens, int(str(capacity)))
        pairs = RoutedComputation(editor, at, region, routing.pairs)
        pairs.compute()
        made = pairs.value(slots.made, slots.roles)
        others = region.others(slots.made, slots.roles).values()
        result = combined(at, routing, made, math.prod(others), GateUse.WEIGH)
        editor.replace(node, in_shape_of(at, result, node.outputs[0], slots.gates, (0,)))
