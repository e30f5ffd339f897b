"""`Routing`: which experts count for which tokens, computed from gates of which most are zero."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from jax2onnx_graph._ir import ir
from jax2onnx_graph.facts.rows import size_of
from jax2onnx_graph.facts.values import LabelledDim, dims_of
from jax2onnx_graph.passes.fusion.experts._pairs import PairIndices
from jax2onnx_graph.passes.fusion.experts._sparsity import Holds, Sparsity
from jax2onnx_graph.rewrite.editor import InsertionPoint, labelled

__all__ = ["ROUTING_CALLS", "Routing", "combined", "in_shape_of", "route", "token_count"]

#: How many nodes choose and sort pairs, and bring them back.
ROUTING_CALLS = 25


@dataclasses.dataclass(frozen=True)
class Routing:
    """The pairs of a token and an expert that count, and the way back to tokens.

    Attributes:
      gates: [tokens, chosen], the gates of the experts that count for each token.
      pairs: the pairs, by expert.
      places: int64[tokens · chosen], the place among the pairs of each expert that counts for a token.
    """

    gates: ir.Value
    pairs: PairIndices
    places: ir.Value


def route(at: InsertionPoint, gates: ir.Value, experts: int, sparsity: Sparsity, tokens: LabelledDim | None) -> Routing:
    """Sort the pairs whose gates are not zero by expert.

    Where a token has fewer than the others, pairs with the gate zero fill up.

    Args:
      at: where the nodes go.
      gates: [tokens, experts], numbers or booleans.
      experts: how many experts there are.
      sparsity: a bound on the gates of a token that are not zero.
      tokens: the number of tokens, if it can be written.
    """
    counts = gates
    if gates.dtype != ir.DataType.BOOL:
        counts = at.op.Not(at.op.Equal(gates, at.constant(0, like=gates)))
    is_fixed = sparsity.holds is Holds.ALWAYS or (sparsity.holds is Holds.IF_FINITE)
    chosen = at.ints([sparsity.bound]) if is_fixed else _most(at, counts)
    rows = _dims(tokens, sparsity.bound, is_fixed=is_fixed)
    _, ids = at.op.several("TopK", at.cast(counts, np.float32), chosen, outputs=2, axis=1, sorted=0, dims=rows)
    if rows is not None:
        ids.shape = ir.Shape(rows)
    flat = at.op.Reshape(ids, at.ints([-1]), dims=_product(rows))
    every = at.op.Shape(flat)
    by_expert, order = _sorted(at, flat, every)
    _, places = _sorted(at, order, every)
    is_of = at.op.Equal(at.op.Unsqueeze(flat, at.ints([1])), at.ints(range(experts)))
    lengths = at.op.ReduceSum(at.cast(is_of, np.int64), at.ints([0]), keepdims=0, dims=(experts,))
    owners = at.op.Div(order, at.op.Squeeze(chosen, at.ints([0])))
    count = _product(rows)
    pairs = PairIndices(owners, by_expert, lengths, None if count is None else count[0])
    return Routing(at.op.GatherElements(gates, ids, axis=1, dims=rows), pairs, places)


def _most(at: InsertionPoint, counts: ir.Value) -> ir.Value:
    """int64[1]: the number of gates of a token that are not zero, where that is largest, but at least 1."""
    numbers = at.op.ReduceSum(at.cast(counts, np.int64), at.ints([1]), keepdims=0)
    return at.op.ReduceMax(at.op.Concat(at.ints([1]), numbers, axis=0), keepdims=1)


def _sorted(at: InsertionPoint, values: ir.Value, count: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Numbers in ascending order, and their places before."""
    ordered, places = at.op.several("TopK", values, count, outputs=2, axis=0, largest=0, sorted=1, dims=at.dims(values))
    places.shape = ordered.shape
    return ordered, places


def _dims(tokens: LabelledDim | None, chosen: int, *, is_fixed: bool) -> Sequence[LabelledDim] | None:
    return None if tokens is None or not is_fixed else labelled((tokens, chosen))  # type: ignore[return-value]


def _product(dims: Sequence[LabelledDim] | None) -> Sequence[LabelledDim] | None:
    if dims is None:
        return None
    tokens, chosen = dims
    assert isinstance(chosen, int)
    if isinstance(tokens, int):
        return (tokens * chosen,)
    return (tokens if chosen == 1 else ir.SymbolicDim(f"{chosen}*{tokens.value}"),)


def combined(at: InsertionPoint, routing: Routing, made: ir.Value, features: int, *, selects: bool) -> ir.Value:
    """[tokens, …]: the sum for each token of what the experts that count make of it, times their gates."""
    shape = at.op.Concat(at.op.Shape(routing.gates), at.ints([features]), axis=0)
    by_token = at.op.Reshape(at.op.Gather(made, routing.places, axis=0), shape)
    if selects:
        selected = at.op.Where(at.op.Unsqueeze(routing.gates, at.ints([2])), by_token, at.constant(0, like=made))
        return at.op.ReduceSum(selected, at.ints([1]), keepdims=0)
    return at.op.MatMul(at.op.Unsqueeze(routing.gates, at.ints([1])), by_token)


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
    places = at.op.Gather(at.op.Shape(gates), at.ints(tokens), axis=0)
    shape = at.op.Concat(places, at.ints([dim for dim in dims[len(tokens) :] if isinstance(dim, int)]), axis=0)
    return at.op.Reshape(result, shape, dims=labelled(dims), allowzero=1)


def token_count(tokens: tuple[LabelledDim, ...]) -> LabelledDim | None:
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
