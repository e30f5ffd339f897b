"""`SelectExperts`: each expert of a mixture computes only the tokens for which it counts."""

from __future__ import annotations

import dataclasses
import math

from jax2onnx_graph._ir import ir
from jax2onnx_graph.assumptions import Assumption
from jax2onnx_graph.facts.rows import Rows, size_of
from jax2onnx_graph.facts.values import LabelledDim, dims_of
from jax2onnx_graph.forms import Threshold
from jax2onnx_graph.passes.fusion.experts._mixtures import Mixture, mixtures_at
from jax2onnx_graph.passes.fusion.experts._pairs import Pairs
from jax2onnx_graph.passes.fusion.experts._region import Refused, Region
from jax2onnx_graph.passes.fusion.experts._routing import Routing, route
from jax2onnx_graph.passes.fusion.experts._sparsity import Sparsity, sparsity
from jax2onnx_graph.passes.fusion.fuse_gelu import FuseGelu
from jax2onnx_graph.passes.fusion.fuse_silu import FuseSilu
from jax2onnx_graph.passes.structural.remove_dead_nodes import RemoveDeadNodes
from jax2onnx_graph.rewrite.editor import GraphEditor, InsertionPoint
from jax2onnx_graph.rewrite.pass_base import Declined, NodePass

__all__ = ["SelectExperts"]

_ROUTING_CALLS = 25  # nodes that choose and sort pairs, and bring them back

_NOT_FINITE = (
    "a gate that is zero leaves out what its expert makes only if that is finite: zero times infinity is NaN; if it always is, "
    "export with assume=['finite']"
)


@dataclasses.dataclass(frozen=True)
class _Found:
    mixture: Mixture
    sparsity: Sparsity
    region: Region


class SelectExperts(NodePass[_Found]):
    """A mixture computes the chosen pairs of a token and an expert instead of all.

    1. A *mixture* is a sum over the axis of experts, by ReduceSum or MatMul, of what the experts make of tokens times gates; or of
       a Where that selects by booleans in their place.
    2. Of the gates of a token at most half are other than zero, as the operators that make them prove: a one-hot, a scatter into
       zeros, products and sums of such. Gates of numbers leave an expert out only if what it makes is finite: the user promises it.
    3. What the experts make is computed for each token and each expert by itself, of weights that differ by expert, and is read by
       the mixture alone.
    4. Pairs are sorted by expert: each expert's weight is multiplied with its own pairs, all else is computed for all pairs at once.
    5. It is done where the products that are saved outweigh the nodes that are added.
    """

    operators = frozenset({"MatMul", "ReduceSum"})
    after = (FuseSilu, FuseGelu, RemoveDeadNodes)
    forms = "A mixture of the chosen experts alone"

    def match(self, node: ir.Node, editor: GraphEditor) -> _Found | Declined | None:
        declined = None
        for mixture in mixtures_at(node):
            bound = sparsity(mixture.gates, Rows(mixture.gate_axes[-1]), mixture.sizes.experts)
            if bound is None:
                continue
            found = _read(node, mixture, bound, editor)
            if isinstance(found, _Found):
                return found
            declined = declined or found
        return declined

    def rewrite(self, node: ir.Node, match: _Found, editor: GraphEditor) -> None:
        at, mixture, region = editor.before(node), match.mixture, match.region
        tokens = _label(mixture.sizes.tokens)
        gates = _gates(at, mixture)
        routing = route(at, gates, mixture.sizes.experts, match.sparsity, tokens)
        pairs = Pairs(editor, at, region, routing.pairs)
        pairs.compute()
        made = pairs.value(mixture.made, mixture.roles)
        others = [*region.others(mixture.made, mixture.roles).values()]
        result = _combined(at, routing, made, math.prod(others), selects=mixture.selects)
        editor.replace(node, _in_shape_of(at, result, node.outputs[0], mixture))
        for step in reversed([*region.steps.values()]):
            if not any(output.uses() or output.is_graph_output() for output in step.node.outputs):
                editor.discard(step.node)


def _read(node: ir.Node, mixture: Mixture, bound: Sparsity, editor: GraphEditor) -> _Found | Declined | None:
    region = Region(mixture.sizes)
    try:
        region.add(mixture.made, mixture.roles)
    except Refused as refused:
        return Declined(str(refused), node) if region.products else None
    if not region.products:
        return None
    if 2 * bound.bound > mixture.sizes.experts:
        return Declined("more than half of the experts may count for a token", node)
    if _is_read_elsewhere(node, region):
        return Declined("what the experts make is read elsewhere, too", node)
    saved = region.weights * (1 - bound.bound / mixture.sizes.experts)
    calls = _ROUTING_CALLS + region.products * (mixture.sizes.experts + 2)
    if saved <= calls * editor.threshold(Threshold.OPERATOR_CALL):
        return Declined("the experts are so small that choosing them takes longer than computing all", node)
    if not mixture.selects and not editor.assumes(Assumption.FINITE):
        return Declined(_NOT_FINITE, node)
    return _Found(mixture, bound, region)


def _is_read_elsewhere(node: ir.Node, region: Region) -> bool:
    """Whether a result that differs by token has a reader outside of the region and the terms of the sum."""
    inside = {*region.steps, node, *(value.producer() for value in node.inputs if value is not None)}
    outputs = [output for step in region.steps.values() if step.roles.has_tokens for output in step.node.outputs]
    return any(output.is_graph_output() or any(user not in inside for user, _ in output.uses()) for output in outputs)


def _label(tokens: tuple[LabelledDim, ...]) -> LabelledDim | None:
    """The number of tokens as a label; None where it cannot be written."""
    if len(tokens) == 1:
        return tokens[0] if isinstance(tokens[0], int) or (tokens[0].value or "").isidentifier() else None
    number, symbols = size_of(tokens)
    names = [*symbols.elements()]
    if not names:
        return number
    if not all(name.isidentifier() for name in names):
        return None
    return ir.SymbolicDim("*".join([*([str(number)] if number != 1 else []), *sorted(names)]))


def _gates(at: InsertionPoint, mixture: Mixture) -> ir.Value:
    """[tokens, experts]: the gates."""
    dims = dims_of(mixture.gates) or ()
    ones = [axis for axis in range(len(dims)) if axis not in mixture.gate_axes]
    gates = at.transpose(mixture.gates, [*mixture.gate_axes, *ones])
    return at.op.Reshape(gates, at.ints([-1, mixture.sizes.experts]))


def _combined(at: InsertionPoint, routing: Routing, made: ir.Value, features: int, *, selects: bool) -> ir.Value:
    """[tokens, …]: the sum for each token of what the experts that count make of it, times their gates."""
    shape = at.op.Concat(at.op.Shape(routing.gates), at.ints([features]), axis=0)
    by_token = at.op.Reshape(at.op.Gather(made, routing.places, axis=0), shape)
    if selects:
        selected = at.op.Where(at.op.Unsqueeze(routing.gates, at.ints([2])), by_token, at.constant(0, like=made))
        return at.op.ReduceSum(selected, at.ints([1]), keepdims=0)
    return at.op.MatMul(at.op.Unsqueeze(routing.gates, at.ints([1])), by_token)


def _in_shape_of(at: InsertionPoint, result: ir.Value, old: ir.Value, mixture: Mixture) -> ir.Value:
    """The result with the dimensions of the mixture, in which the axes of tokens are the first."""
    dims = dims_of(old) or ()
    if sum(not isinstance(dim, int) for dim in dims) <= 1 and 0 not in dims:
        sizes = at.ints([dim if isinstance(dim, int) else -1 for dim in dims])
        return at.op.Reshape(result, sizes, dims=dims)  # type: ignore[arg-type]
    gates = at.transpose(mixture.gates, [*mixture.gate_axes, *(a for a in range(len(dims_of(mixture.gates) or ())) if a not in mixture.gate_axes)])
    count = len(mixture.gate_axes) - 1
    rest = [dim for dim in dims[count:] if isinstance(dim, int)]
    shape = at.op.Concat(at.op.Shape(gates, start=0, end=count), at.ints(rest), axis=0)
    return at.op.Reshape(result, shape, dims=dims, allowzero=1)  # type: ignore[arg-type]
