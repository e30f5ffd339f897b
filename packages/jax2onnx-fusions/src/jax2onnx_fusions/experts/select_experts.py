"""`SelectExperts`: each expert of a mixture computes only the tokens for which it counts."""

from __future__ import annotations

import dataclasses
import math

from jax2onnx_graph import ir
from jax2onnx_graph.assumptions import Assumption
from jax2onnx_graph.facts.sub_axes import SubAxis
from jax2onnx_graph.forms import Threshold
from jax2onnx_graph.rewrite.editor import GraphEditor
from jax2onnx_graph.rewrite.pass_base import Declined, NodePass, Phase
from jax2onnx_graph.traversal import is_read

from jax2onnx_fusions.activations.fuse_gelu import FuseGelu
from jax2onnx_fusions.activations.fuse_silu import FuseSilu
from jax2onnx_fusions.experts._expert_axes import token_count
from jax2onnx_fusions.experts._expert_subgraph import ExpertSubgraph, Refused
from jax2onnx_fusions.experts._mixtures import Mixture, gates_by_token, mixtures_at
from jax2onnx_fusions.experts._routed_computation import RoutedComputation
from jax2onnx_fusions.experts._routing import ROUTING_CALLS, GateUse, combined, in_shape_of, route
from jax2onnx_fusions.experts._sparsity import Sparsity, sparsity

__all__ = ["NOT_FINITE", "SelectExperts"]

#: The reason why a mixture stays as it is for want of a promise.
NOT_FINITE = (
    "a gate that is zero leaves out what its expert makes only if that is finite: zero times infinity is NaN; if it always is, "
    "export with assume=['finite']"
)


@dataclasses.dataclass(frozen=True)
class _Found:
    mixture: Mixture
    sparsity: Sparsity
    region: ExpertSubgraph


class SelectExperts(NodePass[_Found]):
    """A mixture computes the chosen pairs of a token and an expert instead of all.

    1. A *mixture* is a sum over the axis of experts, by ReduceSum, MatMul or a Scan that adds one after another, of what the experts
       make of tokens times gates; or of a Where that selects by booleans in their place. The gates may be factors of what the results
       are computed from, if those are zero where the gates are; a MatMul may sum over experts and features at once.
    2. Of the gates of a token at most half are other than zero, as the operators that make them prove: a one-hot, a scatter into
       zeros, products and sums of such. Gates of numbers leave an expert out only if what it makes is finite: the user promises it.
    3. What the experts make is computed for each token and each expert by itself, of weights that differ by expert, and is read by
       the mixture alone.
    4. RoutedComputation are sorted by expert: each expert's weight is multiplied with its own pairs, all else is computed for all pairs at once.
    5. It is done where the products that are saved outweigh the nodes that are added.
    """

    phase = Phase.FUSE
    operators = frozenset({"MatMul", "ReduceSum", "Scan"})
    after = (FuseSilu, FuseGelu)
    forms = "A mixture of the chosen experts alone"

    def match(self, node: ir.Node, editor: GraphEditor) -> _Found | Declined | None:
        declined = None
        for mixture in mixtures_at(node):
            bound = sparsity(mixture.gates, SubAxis(mixture.gate_axes[-1]), mixture.sizes.experts)
            if bound is None:
                continue
            found = _read(node, mixture, bound, editor)
            if isinstance(found, _Found):
                return found
            declined = declined or found
        return declined

    def rewrite(self, node: ir.Node, match: _Found, editor: GraphEditor) -> None:
        at, mixture, region = editor.before(node), match.mixture, match.region
        tokens = token_count(mixture.sizes.tokens)
        gates = gates_by_token(at, mixture)
        routing = route(at, gates, mixture.sizes.experts, match.sparsity, tokens)
        pairs = RoutedComputation(editor, at, region, routing.pairs)
        pairs.compute()
        made = pairs.value(mixture.made, mixture.roles)
        others = [*region.others(mixture.made, mixture.roles).values()]
        result = combined(at, routing, made, math.prod(others), mixture.use)
        shaped = in_shape_of(at, result, node.outputs[0], mixture.gates, mixture.gate_axes[:-1])
        if mixture.start is not None:
            shaped = at.op.Add(mixture.start, shaped, dims=at.dims(node.outputs[0]))
        editor.replace(node, shaped)
        for step in reversed([*region.steps.values()]):
            if step.node is not node and not is_read(step.node):
                editor.discard(step.node)


def _read(node: ir.Node, mixture: Mixture, bound: Sparsity, editor: GraphEditor) -> _Found | Declined | None:
    region = ExpertSubgraph(node.graph, mixture.sizes)
    try:
        if mixture.is_gated:
            region.add_gates(mixture.gates)
        if mixture.product is None:
            region.add(mixture.made, mixture.roles)
        else:
            region.add_step(mixture.product)
    except Refused as refused:
        return Declined(str(refused), node) if region.products else None
    if not region.products:
        return None
    if 2 * bound.bound > mixture.sizes.experts:
        return Declined("more than half of the experts may count for a token", node)
    if _is_read_elsewhere(node, region):
        return Declined("what the experts make is read elsewhere, too", node)
    saved = region.weights * (1 - bound.bound / mixture.sizes.experts)
    calls = ROUTING_CALLS + region.products * (mixture.sizes.experts + 2)
    if saved <= calls * editor.threshold(Threshold.OPERATOR_CALL):
        return Declined("the experts are so small that choosing them takes longer than computing all", node)
    if mixture.use is not GateUse.SELECT and not editor.assumes(Assumption.FINITE):
        return Declined(NOT_FINITE, node)
    return _Found(mixture, bound, region)


def _is_read_elsewhere(node: ir.Node, region: ExpertSubgraph) -> bool:
    """Whether a result that differs by token has a reader outside of the region and the terms of the sum."""
    inside = {*region.steps, node, *(value.producer() for value in node.inputs if value is not None)}
    outputs = [output for step in region.steps.values() if step.node is not node for output in step.node.outputs]
    return any(output.is_graph_output() or any(user not in inside for user, _ in output.uses()) for output in outputs)
