"""`SelectPlaces`: experts that have places for tokens compute the places that are taken alone."""

from __future__ import annotations

import dataclasses
import math

from jax2onnx_graph import ir
from jax2onnx_graph.assumptions import Assumption
from jax2onnx_graph.facts.values import dims_of
from jax2onnx_graph.forms import Threshold
from jax2onnx_graph.rewrite.editor import GraphEditor
from jax2onnx_graph.rewrite.pass_base import Declined, NodePass, Phase

from jax2onnx_fusions.experts._cones import cone_of, exclusive
from jax2onnx_fusions.experts._pairs import Pairs
from jax2onnx_fusions.experts._places import Places, places_at
from jax2onnx_fusions.experts._region import Refused, Region
from jax2onnx_fusions.experts._routing import ROUTING_CALLS, combined, in_shape_of, route
from jax2onnx_fusions.experts.select_experts import NOT_FINITE, SelectExperts

__all__ = ["SelectPlaces"]


@dataclasses.dataclass(frozen=True)
class _Found:
    places: Places
    region: Region


class SelectPlaces(NodePass[_Found]):
    """A sum over the places of experts computes those alone that a token has taken.

    1. The sum is a product of gates, [tokens, experts · places], and of what the experts make at their places.
    2. Of the gates of a token few are other than zero, as the operators that make them prove: products of a one-hot of experts and a
       one-hot of places, sums of such. The user promises that all numbers are finite.
    3. What an expert makes at a place is computed of what is there alone, and is read by the sum alone.
    4. A token that was dropped, because its expert had no place for it, has no gate but zero, as before.
    5. It is done where fewer places are taken than there are, and the products that are saved outweigh the nodes that are added.
    """

    phase = Phase.FUSE
    operators = frozenset({"MatMul"})
    after = (SelectExperts,)
    forms = "A mixture of the places that are taken alone"

    def match(self, node: ir.Node, editor: GraphEditor) -> _Found | Declined | None:
        places = places_at(node)
        if places is None:
            return None
        region = Region(places.sizes, exclusive({*cone_of(places.made)}, node))
        try:
            region.add(places.made, places.roles)
        except Refused as refused:
            return Declined(str(refused), node)
        tokens = (dims_of(places.gates) or ())[0]
        if not isinstance(tokens, int):
            return Declined("how many tokens there are is not known, nor whether they are fewer than places", node)
        (capacity,) = places.sizes.tokens
        taken = tokens * places.sparsity.bound / (places.sizes.experts * int(str(capacity)))
        if taken >= 1:
            return Declined("there are no more places than tokens", node)
        calls = ROUTING_CALLS + region.products * (places.sizes.experts + 2)
        if region.weights * (1 - taken) <= calls * editor.threshold(Threshold.OPERATOR_CALL):
            return Declined("the experts are so small that choosing places takes longer than computing all", node)
        return _Found(places, region) if editor.assumes(Assumption.FINITE) else Declined(NOT_FINITE, node)

    def rewrite(self, node: ir.Node, match: _Found, editor: GraphEditor) -> None:
        at, places, region = editor.before(node), match.places, match.region
        tokens, (capacity,) = (dims_of(places.gates) or ())[0], places.sizes.tokens
        routing = route(at, places.gates, places.sizes.experts, places.sparsity, tokens, int(str(capacity)))
        pairs = Pairs(editor, at, region, routing.pairs)
        pairs.compute()
        made = pairs.value(places.made, places.roles)
        others = region.others(places.made, places.roles).values()
        result = combined(at, routing, made, math.prod(others), selects=False)
        editor.replace(node, in_shape_of(at, result, node.outputs[0], places.gates, (0,)))
