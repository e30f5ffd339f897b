"""`Routing`: the assignment of tokens to experts, computed from gates that are mostly zero."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Sequence

import numpy as np
from jax2onnx_graph import ir
from jax2onnx_graph.build.grouped import sorted_groups
from jax2onnx_graph.facts.sizes import size_of
from jax2onnx_graph.facts.values import LabelledDim, dims_of
from jax2onnx_graph.rewrite.editor import InsertionPoint, labelled

from jax2onnx_fusions.experts._routed_computation import PairIndices
from jax2onnx_fusions.experts._sparsity import Sparsity, Validity

__all__ = ["ROUTING_CALLS", "GateUse", "Routing", "combined", "in_shape_of", "route", "slot_pairs"]

#: The number of nodes that choose and sort pairs, and bring them back.
ROUTING_CALLS = 25


class GateUse(enum.Enum):
    """The use of gates in a sum over experts."""

    WEIGH = enum.auto()
    """The results of experts are multiplied by them."""
    SELECT = enum.auto()
    """Results count where they are true."""
    WITHIN = enum.auto()
    """The results are computed from products with them."""


@dataclasses.dataclass(frozen=True)
class Routing:
    """The pairs of a token and an expert that count, and the way back to tokens.

    Attributes:
      gates: [tokens, chosen], the gates of the experts that count for each token.
      pairs: the pairs, by expert.
      places: int64[tokens · chosen], the position among the pairs of each expert that counts for a token.
    """

    gates: ir.Value
    pairs: PairIndices
    places: ir.Value


def route(
    at: InsertionPoint,
    gates: ir.Value,
    experts: int,
    sparsity: Sparsity,
    tokens: LabelledDim,
    slots: int | None = None,
) -> Routing:
    """Sort the pairs whose gates are not zero by expert.

    Where a token has fewer than the others, or none has any, pairs with the gate zero fill up.

    Args:
      at: where the nodes go.
      gates: [tokens, experts], numbers or booleans.
      experts: the number of experts.
      sparsity: a bound on the gates of a token that are not zero.
      tokens: the number of tokens.
      slots: the capacity of each expert, if the gates are [tokens, experts · slots]. Then the tokens of pairs are slots.
    """
    counts = gates
    if gates.dtype != ir.DataType.BOOL:
        counts = at.op.Not(at.op.Equal(gates, at.constant(0, like=gates)))
    is_fixed, bound = sparsity.validity is not Validity.ON_AVERAGE, max(sparsity.bound, 1)
    chosen = at.ints([bound]) if is_fixed else _most(at, counts, tokens)
    rows = labelled((tokens, bound if is_fixed else ir.SymbolicDim(None)))
    count = size_of([tokens, bound]).dim if is_fixed else ir.SymbolicDim(None)
    chosen_gates, ids = at.op.several(
        "TopK", at.cast(counts, np.float32), chosen, outputs=2, axis=1, sorted=0, dims=rows
    )
    ids.shape = chosen_gates.shape
    flat = at.op.Reshape(ids, at.ints([-1]), dims=labelled((count,)))
    if slots is not None:
        own_gates = at.op.GatherElements(gates, ids, axis=1, dims=rows)
        return Routing(own_gates, *slot_pairs(at, flat, experts, slots, count))
    runs = sorted_groups(at, flat, experts)
    owners = runs.order
    if not is_fixed or bound != 1:
        each = at.constant(bound, like=flat) if is_fixed else at.op.Squeeze(chosen, at.ints([0]))
        owners = at.op.Div(owners, each)
    pairs = PairIndices(owners, runs.numbers, runs.lengths, count)
    return Routing(at.op.GatherElements(gates, ids, axis=1, dims=rows), pairs, runs.places)


def slot_pairs(
    at: InsertionPoint, flat: ir.Value, experts: int, slots: int, count: LabelledDim
) -> tuple[PairIndices, ir.Value]:
    """The pairs of slots and experts for the numbers of slots, by expert, and the position of each among them.

    Args:
      at: where the nodes go.
      flat: int64[count], numbers among the slots of all experts.
      experts: the number of experts.
      slots: the number of slots of each.
      count: the number of pairs.
    """
    size = at.constant(slots, like=flat)
    runs = sorted_groups(at, at.op.Div(flat, size), experts)
    own = at.op.Gather(flat, runs.order, axis=0)
    return PairIndices(at.op.Mod(own, size), runs.numbers, runs.lengths, count, own), runs.places


def _most(at: InsertionPoint, counts: ir.Value, tokens: LabelledDim) -> ir.Value:
    """int64[1]: the largest number of nonzero gates of a token, but at least 1."""
    numbers = at.op.ReduceSum(at.cast(counts, np.int64), at.ints([1]), keepdims=0)
    dims = labelled((_sum(tokens, 1),))
    return at.op.ReduceMax(at.op.Concat(at.ints([1]), numbers, axis=0, dims=dims), keepdims=1)


def _sum(dim: LabelledDim, number: int) -> LabelledDim:
    return dim + number if isinstance(dim, int) else ir.SymbolicDim(f"{dim.value} + {number}")


def combined(at: InsertionPoint, routing: Routing, made: ir.Value, features: int, use: GateUse) -> ir.Value:
    """[tokens, …]: the sum for each token of the results of its experts, which gates weigh or select."""
    dims = (*at.known_dims(routing.gates), features)
    sizes = [dim for dim in dims if isinstance(dim, int)]
    is_known = len(sizes) == len(dims)
    shape = at.ints(sizes) if is_known else at.op.Concat(at.op.Shape(routing.gates), at.ints([features]), axis=0)
    by_token = at.op.Reshape(at.op.Gather(made, routing.places, axis=0), shape, dims=dims)
    if use is GateUse.WEIGH:
        return at.op.MatMul(at.op.Unsqueeze(routing.gates, at.ints([1])), by_token)
    if use is GateUse.SELECT:
        by_token = at.op.Where(at.op.Unsqueeze(routing.gates, at.ints([2])), by_token, at.constant(0, like=made))
    return at.op.ReduceSum(by_token, at.ints([1]), keepdims=0)


def in_shape_of(
    at: InsertionPoint, result: ir.Value, old: ir.Value, gates: ir.Value, tokens: Sequence[int]
) -> ir.Value:
    """[tokens, …] with the dimensions of another value, whose first axes are those of tokens.

    Args:
      at: where the nodes go.
      result: the value.
      old: the other value.
      gates: a value that has the same axes of tokens.
      tokens: these axes.
    """
    dims = dims_of(old) or ()
    if sum(not isinstance(dim, int) for dim in dims) <= 1 and 0 not in dims:
        sizes = at.ints([dim if isinstance(dim, int) else -1 for dim in dims])
        return at.op.Reshape(result, sizes, dims=labelled(dims))
    sizes = at.op.Gather(at.op.Shape(gates), at.ints(tokens), axis=0)
    shape = at.op.Concat(sizes, at.ints([dim for dim in dims[len(tokens) :] if isinstance(dim, int)]), axis=0)
    return at.op.Reshape(result, shape, dims=labelled(dims), allowzero=1)
